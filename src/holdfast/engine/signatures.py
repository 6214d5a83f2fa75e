"""True signatures for methods that take their options as one TypedDict."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.engine.options import DEFAULTS

F = TypeVar("F", bound=Callable[..., Any])


def shows(options: type, **defaults: Any) -> Callable[[F], F]:
    """Let `help()` show `**options` as the keywords of this TypedDict.

    `defaults` are those that differ from what the options are elsewhere.
    """
    usual = {**DEFAULTS, **defaults}

    def decorate(method: F) -> F:
        signature = inspect.signature(method)
        never = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        fixed = [p for p in signature.parameters.values() if p.kind not in never]
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=usual.get(name),
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            for name, hint in options.__annotations__.items()
            if name not in signature.parameters
        ]
        method.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*fixed, *keywords]
        )
        return method

    return decorate
