from tests.cli.conftest import cli, cp

__all__ = ["cli", "cp"]
