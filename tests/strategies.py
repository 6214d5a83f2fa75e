"""Hypothesis strategies for values that can be stored, and the equality to compare them by."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia")


def values(*, max_leaves: int = 20, arrays: bool = True) -> SearchStrategy[Any]:
    """Every kind of value that comes back from `decode(encode(v))` as `same` and of its own type.

    Text includes lone surrogates, dicts any key that can be stored, floats NaN and -0.0. Without
    `arrays`, no numpy value is drawn; they are left out, too, where numpy is missing.
    """
    leaves = scalars()
    if arrays:
        leaves = leaves | _numpy_values()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=5)
            | st.lists(inner, max_size=4).map(tuple)
            | st.dictionaries(st.text(max_size=8), inner, max_size=5)
            | st.dictionaries(keys(), inner, max_size=4)
            | st.sets(keys(), max_size=4)
            | st.frozensets(keys(), max_size=4)
        ),
        max_leaves=max_leaves,
    )


def keys() -> SearchStrategy[Any]:
    """Every kind of value that can be a dict's key or a member of a set."""
    hashable = scalars().filter(_is_hashable)
    return (
        hashable | st.lists(hashable, max_size=3).map(tuple) | st.frozensets(hashable, max_size=3)
    )


def scalars() -> SearchStrategy[Any]:
    """Every kind of value without parts, numpy's left out."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(2**130), max_value=2**130),
        st.floats(),
        st.complex_numbers(),
        st.text(max_size=20),
        st.text(st.characters(codec=None), max_size=8),
        st.sampled_from(["$tuple", "$$", "$", "\x00", "\ud800", "\ud83d\ude00"]),
        st.binary(max_size=20),
        st.decimals(),
        st.sampled_from(["sNaN", "-NaN12", "-0", "1E+400", "-Infinity"]).map(Decimal),
        st.uuids(),
        st.dates(),
        st.timedeltas(),
        st.times(timezones=st.none() | _timezones()),
        st.datetimes(timezones=st.none() | _timezones()),
        st.datetimes(timezones=st.none() | _timezones()).map(lambda moment: moment.replace(fold=1)),
    )


def same(left: Any, right: Any) -> bool:
    """Equal and of the same types throughout; NaN is NaN, -0.0 is not 0.0, dicts keep their order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same([*left], [*right]) and same([*left.values()], [*right.values()])
    if isinstance(left, set | frozenset):
        rest = list(right)
        for item in left:
            found = next((index for index, other in enumerate(rest) if same(item, other)), None)
            if found is None:
                return False
            del rest[found]
        return not rest
    if isinstance(left, float):
        if math.isnan(left):
            return math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, dt.datetime | dt.time):
        key = getattr(left.tzinfo, "key", None), left.utcoffset(), left.fold
        other = getattr(right.tzinfo, "key", None), right.utcoffset(), right.fold
        return key == other and left.replace(tzinfo=None) == right.replace(tzinfo=None)
    if isinstance(left, Decimal):
        return bool(left.as_tuple() == right.as_tuple())  # a signalling NaN can't be compared
    if hasattr(left, "dtype"):
        return bool(
            left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    return bool(left == right)


def _timezones() -> SearchStrategy[dt.tzinfo]:
    limit = dt.timedelta(hours=23, minutes=59)
    return st.sampled_from(_ZONES).map(ZoneInfo) | st.timedeltas(-limit, limit).map(dt.timezone)


def _numpy_values() -> SearchStrategy[Any]:
    try:
        from hypothesis.extra import numpy
    except ImportError:
        return st.nothing()
    dtypes = st.one_of(
        numpy.boolean_dtypes(),
        numpy.integer_dtypes(),
        numpy.unsigned_integer_dtypes(),
        numpy.floating_dtypes(),
        numpy.complex_number_dtypes(),
        numpy.datetime64_dtypes(),
        numpy.timedelta64_dtypes(),
        numpy.byte_string_dtypes(),
        numpy.unicode_string_dtypes(),
    )
    shapes = numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    made = dtypes.flatmap(lambda dtype: numpy.arrays(dtype, shapes, fill=st.nothing()))
    numbers = made.filter(lambda array: array.size and array.dtype.kind not in "SU")
    return made | numbers.map(lambda array: array.flat[0])


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # Decimal("sNaN")
        return False
    return True
