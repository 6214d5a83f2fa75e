"""Ids and numbers in paths. Imported before any route is made."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor


class _Id(Convertor[str]):
    """An id in a path, percent-encoded: `{run_id:id}`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="surrogateescape")  # no id holds those

    def to_string(self, value: str) -> str:
        raise NotImplementedError("see rendering.run_path")


class _Seq(Convertor[int]):
    """The number of an entry in a path, as far as stores count: `{seq:seq}`."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("id", _Id())
register_url_convertor("seq", _Seq())
