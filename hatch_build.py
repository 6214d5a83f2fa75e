"""Puts a bill of materials into the wheel: `holdfast-*.dist-info/sboms/holdfast.cdx.json`.

CycloneDX 1.7, in the place of PEP 770. It lists what the wheel contains of others, with the digest
of each file, and what pip installs beside it, by range and extra. The same sources give the same
bytes: it has no time and no random serial number.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class SbomHook(BuildHookInterface):  # type: ignore[type-arg]  # of a config that is not public
    """Called by hatchling for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bill, and have it included; an editable install has none."""
        if version != "standard":
            return
        core = self.metadata.core
        bill = bill_of_materials(
            name=core.name,
            version=self.metadata.version,
            license_id=core.license_expression,
            vendored=json.loads((Path(self.root) / self.config["vendored"]).read_text()),
            vendored_at=str(Path(self.config["vendored"]).parent).removeprefix("src/"),
            required=core.dependencies,
            extras=core.optional_dependencies,
        )
        self._written = tempfile.TemporaryDirectory()
        path = Path(self._written.name, f"{core.name}.cdx.json")
        path.write_text(json.dumps(bill, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` wrote."""
        if version == "standard":
            self._written.cleanup()


def bill_of_materials(
    *,
    name: str,
    version: str,
    license_id: str,
    vendored: list[dict[str, str]],
    vendored_at: str,
    required: list[str],
    extras: Mapping[str, list[str]],
) -> dict[str, Any]:
    """The bill as CycloneDX's JSON."""
    whole = _component(f"pkg:pypi/{name}@{version}", name, version, license_id)
    contained = _vendored(vendored, vendored_at)
    needed = _needed(name, required, extras)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {"component": whole},
        "components": [*contained, *needed],
        "dependencies": [
            {
                "ref": whole["bom-ref"],
                "dependsOn": sorted(each["bom-ref"] for each in (*contained, *needed)),
            }
        ],
    }


def _vendored(manifest: list[dict[str, str]], at: str) -> list[dict[str, Any]]:
    """One component per npm package, with the files that are taken from it."""
    found: dict[str, dict[str, Any]] = {}
    for item in manifest:
        package = item["npm"].replace("@", "%40")
        purl = f"pkg:npm/{package}@{item['version']}"
        component = found.setdefault(
            purl,
            {**_component(purl, item["npm"], item["version"], item["license"]), "components": []},
        )
        component["components"].append(
            {
                "type": "file",
                "bom-ref": f"{at}/{item['file']}",
                "name": f"{at}/{item['file']}",
                "hashes": [{"alg": "SHA-256", "content": item["sha256"]}],
            }
        )
    return [found[purl] for purl in sorted(found)]


def _component(purl: str, name: str, version: str, license_id: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{"license": {"id": license_id}}],
        "purl": purl,
    }


def _needed(
    project: str, required: list[str], extras: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """One external component per package that pip installs beside the wheel."""
    found: dict[str, dict[str, Any]] = {}
    for extra, lines in (("", required), *sorted(extras.items())):
        for requirement in map(Requirement, lines):
            name = canonicalize_name(requirement.name)
            if name == project:  # one extra that includes others
                continue
            component = found.setdefault(name, _external(name, extra))
            component["versionRange"] = _range(requirement, component.get("versionRange"))
            said = f"{requirement} ({extra})" if extra else str(requirement)
            component["properties"].append({"name": f"{project}:requirement", "value": said})
    return [found[name] for name in sorted(found)]


def _external(name: str, extra: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}",
        "name": name,
        "isExternal": True,
        "scope": "optional" if extra else "required",
        "purl": f"pkg:pypi/{name}",
        "properties": [],
    }


def _range(requirement: Requirement, before: str | None) -> str:
    """As a "vers"; any version where extras differ, whose requirements are listed as properties."""
    limits = "|".join(sorted(str(each) for each in requirement.specifier)) or "*"
    found = f"vers:pypi/{limits}"
    return found if before in (None, found) else "vers:pypi/*"
