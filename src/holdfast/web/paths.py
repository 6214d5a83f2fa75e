"""Ids in paths. Imported before any route is made."""

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


register_url_convertor("id", _Id())
