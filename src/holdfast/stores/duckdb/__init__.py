"""Journals in one DuckDB file, which one process uses at a time.

`store` has the methods and statements, `file` the connection, its lock and errors.
"""
