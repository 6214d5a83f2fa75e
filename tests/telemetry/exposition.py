"""A strict reader of Prometheus' text format 0.0.4, as its specification has it."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_SUFFIXES = ("_bucket", "_sum", "_count")


class Family(NamedTuple):
    """What is said under one name."""

    kind: str
    help: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> dict[str, Family]:
    """All families of an exposition. Raises `AssertionError` for anything but the format."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    helps: dict[str, str] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, said = line.split(" ", 3)
            assert name not in helps, f"{name} has two HELP lines"
            helps[name] = said
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families, f"{name} is in two groups"
            assert kind in ("counter", "gauge", "histogram")
            assert re.fullmatch(_NAME, name)
            families[name] = Family(kind, helps[name], {})
            current = name
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            family = families[current]
            suffix = name.removeprefix(current)
            assert suffix in (_SUFFIXES if family.kind == "histogram" else ("",)), line
            key = (suffix, frozenset(_labels(labels or "").items()))
            assert key not in family.samples, f"twice: {line}"
            family.samples[key] = math.inf if value == "+Inf" else float(value)
    for name, family in families.items():
        if family.kind == "counter":
            assert name.endswith("_total")
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _LABEL.match(text, at)
        assert found, text
        assert found[1] not in labels
        labels[found[1]] = re.sub(
            r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), found[2]
        )
        at = found.end()
        assert at == len(text) or text[at] == ","
        at += 1
    return labels


def _check_histogram(family: Family) -> None:
    series: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {
        labels: [] for suffix, labels in family.samples if suffix == "_count"
    }
    for (suffix, given), value in family.samples.items():
        if suffix == "_bucket":
            bound = float(dict(given)["le"].replace("+Inf", "inf"))
            series[frozenset(one for one in given if one[0] != "le")].append((bound, value))
    for labels, found in series.items():
        buckets = sorted(found)
        counts = [count for _, count in buckets]
        assert counts == sorted(counts), "buckets are cumulative"
        assert buckets[-1] == (math.inf, family.samples["_count", labels])
        assert ("_sum", labels) in family.samples
