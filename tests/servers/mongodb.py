"""A stand-in for MongoDB: mongomock, which finds documents by their ids as a server does."""

from __future__ import annotations

from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, Final

from mongomock import MongoClient
from mongomock.collection import Collection
from mongomock.filtering import filter_applies

__all__ = ["MongoClient"]

_BOUNDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le,
}  # fmt: skip
_collections: Final[Any] = Collection
_fits: Final[Any] = filter_applies
_among_all: Final = _collections._iter_documents


def _matching(collection: Any, wanted: Any) -> Any:
    """Those that match. Mongomock would look at every document in all ways, each time."""
    documents = collection._store._documents
    asked = wanted.get("_id") if isinstance(wanted, dict) else None
    if isinstance(asked, str):
        names = [asked] if asked in documents else []
    elif isinstance(asked, dict) and asked and asked.keys() <= _BOUNDS.keys():
        bounds = [(_BOUNDS[name], bound) for name, bound in asked.items()]
        names = [name for name in documents if all(fits(name, bound) for fits, bound in bounds)]
    else:
        return _among_all(collection, wanted)
    found = [documents[name] for name in names]
    return (each for each in found if _fits(wanted, each))


_collections._iter_documents = _matching
