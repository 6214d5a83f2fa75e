"""Journals in one DuckDB file, for one process: `store` its methods, `file` the connection."""
