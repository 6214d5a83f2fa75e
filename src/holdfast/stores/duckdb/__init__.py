"""Journals in one DuckDB file, for one process."""
