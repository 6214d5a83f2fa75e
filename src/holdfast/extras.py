"""Packages that only some features need, and the command that installs them."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

# Other imports are where they are needed: `import holdfast` imports this module.


class MissingExtraError(ImportError):
    """An extra is not installed; the message says how to install it."""


def missing_extra(
    extra: str, error: ImportError, what: str = "this", needs: str = ""
) -> MissingExtraError:
    """The error to raise for an import that failed; `needs` is what to call what is missing."""
    needs = needs or (error.name or "").partition(".")[0] or str(error)
    text = f"{what} needs {needs}; install it with: {install_command(extra)}"
    return MissingExtraError(text, name=error.name)


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from where holdfast itself came.

    An index is asked only if holdfast came from one, or if its source is gone: another index may
    have another project of this name.
    """
    import shlex

    return shlex.join([*_installer(), *_source(f"[{extra}]")])


def _installer() -> list[str]:
    """What installs into the environment of this process."""
    from pathlib import Path
    from shutil import which

    python = sys.executable and _from_here(sys.executable)
    if python and not _is_installed("pip") and which("uv"):
        return ["uv", "pip", "install", f"--python={python}"]
    if not python or Path(which("pip") or "").parent == Path(sys.executable).parent:
        return ["pip", "install"]
    return [python, "-m", "pip", "install"]


def _is_installed(package: str) -> bool:
    from importlib import metadata

    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def _source(extra: str) -> list[str]:
    """What to install."""
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    found = _direct_url()
    url = str(found.get("url", ""))
    if vcs := found.get("vcs_info"):
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        return [f"holdfast{extra} @ {vcs.get('vcs')}+{_without_password(url)}@{revision}"]
    if not url.startswith("file:"):
        return [f"holdfast{extra} @ {_without_password(url)}" if url else f"holdfast{extra}"]
    path = unquote(urlsplit(url).path)
    if not Path(path).exists():
        return [f"holdfast{extra}"]
    editable = found.get("dir_info", {}).get("editable")
    return [*(["-e"] if editable else []), _from_here(path) + extra]


def _without_password(url: str) -> str:
    before, at, host = url.partition("@")
    scheme, _, user = before.partition("://")
    return f"{scheme}://{user.partition(':')[0]}@{host}" if at and ":" in user else url


@cache
def _direct_url() -> dict[str, Any]:
    """What holdfast was installed from (PEP 610); nothing if that was an index."""
    import json
    from importlib import metadata

    try:
        found = json.loads(metadata.distribution("holdfast").read_text("direct_url.json") or "")
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    known = {"url": str, "vcs_info": dict, "dir_info": dict}
    is_right = isinstance(found, dict) and all(
        isinstance(found.get(name, kind()), kind) for name, kind in known.items()
    )
    return found if is_right else {}


def _from_here(path: str) -> str:
    """The path as it is typed in the working directory: relative only if it is in there."""
    from pathlib import Path

    try:
        inside = Path(path).relative_to(Path.cwd())
    except (ValueError, OSError):  # elsewhere, or the working directory is gone
        return path
    return "." if inside == Path() else f"./{inside}"
