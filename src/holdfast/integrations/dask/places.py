"""Which stores workers can share with whoever submits a run."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

from holdfast.errors import StoreURLError
from holdfast.kernel.processes import boot_id
from holdfast.urls import default_url, is_shared, local_path, masked

_ADVICE: Final = "use one on a server, such as postgresql://"


def check_shared(url: str) -> None:
    """Raise `StoreURLError` for a store that only one process can use."""
    if is_shared(url) is False:
        reason = f"only one process can use this store, and a Dask cluster has several; {_ADVICE}"
        raise StoreURLError(masked(url), reason)


def resolved(where: str | os.PathLike[str] | None) -> str:
    """The URL or path of a store, with an absolute path; None is the default store."""
    url = default_url() if where is None else os.fspath(where)
    path = local_path(url)
    if path is None or path.is_absolute():
        return url
    scheme, separator, rest = url.partition(":///")
    if not separator:
        return str(path.absolute()) + ("/" if url.endswith("/") else "")
    query = rest.partition("?")[2]
    return f"{scheme}:///{quote(str(path.absolute()))}" + (f"?{query}" if query else "")


def place_of(url: str) -> str | None:
    """Which file system a local store is in, as far as this machine can tell; None for servers.

    Equal in two processes only if both see the same directory of the same machine.
    """
    path = local_path(url)
    if path is None:
        return None
    for directory in path.absolute().parents:
        if directory.is_dir():
            found = directory.stat()
            return f"{boot_id()} {found.st_dev} {found.st_ino} {directory}"
    return ""


def check_same(url: str, place: str | None, where: str) -> None:
    """Raise `StoreURLError` unless this process sees the store that whoever sent `place` sees."""
    if place_of(url) not in (None, place):
        reason = f"this is a file of another machine than that of {where}; {_ADVICE}"
        raise StoreURLError(masked(url), reason)
