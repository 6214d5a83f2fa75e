"""The REST API under /api/v1: what the command line prints with `--json`, over HTTP."""
