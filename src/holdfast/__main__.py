"""`python -m holdfast`."""

from holdfast.cli.main import holdfast

holdfast(prog_name="holdfast")
