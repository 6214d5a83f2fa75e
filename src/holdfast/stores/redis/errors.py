"""Errors of the Redis driver as errors of ours."""

from __future__ import annotations

from typing import Final

from redis import exceptions as rx

from holdfast.errors import HoldfastError, SchemaError, StoreError, StoreUnavailableError

_TEMPORARY: Final = (
    "LOADING", "BUSY", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "UNKILLABLE",
)  # fmt: skip


def translate(error: Exception, url: str, *, clustered: bool) -> HoldfastError:
    """The error to raise, for one that says that nothing was written."""
    said = f"{url}: {error}"
    if isinstance(error, rx.OutOfMemoryError) or "OOM command not allowed" in said:
        return StoreUnavailableError(f"{said} The server is full: delete runs or raise maxmemory")
    if isinstance(error, rx.ReadOnlyError) or "READONLY" in said:
        return StoreUnavailableError(f"{said} This is a replica: connect to its primary")
    if isinstance(error, rx.AskError | rx.ClusterCrossSlotError) and not clustered:
        return StoreError(
            f"{url}: this server is part of a cluster; open the store with cluster=true"
        )
    if isinstance(error, rx.AskError | rx.TryAgainError) or "TTL exhausted" in said:
        return StoreUnavailableError(f"{url}: the cluster is moving a slot ({error}); try again")
    if isinstance(
        error,
        rx.AuthenticationError
        | rx.AuthorizationError
        | rx.AuthenticationWrongNumberOfArgsError
        | rx.NoPermissionError,
    ):
        return StoreError(f"{said}; check the user, the password and what they may do")
    if isinstance(error, rx.MaxConnectionsError) or "No connection available" in said:
        return StoreUnavailableError(
            f"{url}: all connections are in use; open the store with more connections="
        )
    if isinstance(error, rx.ResponseError) and not isinstance(error, rx.ClusterError):
        if "WRONGTYPE" in said:
            return SchemaError(
                url, "another program keeps data under these keys; use another prefix"
            )
        if not any(str(error).startswith(code) for code in _TEMPORARY):
            return StoreError(said)
    return StoreUnavailableError(said)
