"""The kernel is tried on the same stores as the operations."""

from tests.operations.conftest import kept_url, url

__all__ = ["kept_url", "url"]
