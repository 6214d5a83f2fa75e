"""The embedded default: one SQLite file in WAL mode.

`store` its methods and statements, `schema`, `connections`, `work` the user's SQL in `commit=`.
"""
