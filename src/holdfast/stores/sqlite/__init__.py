"""The embedded default: one SQLite file in WAL mode.

`store` has the methods and statements, `schema` the tables, `connections` opening and locking,
`work` the user's SQL in `commit=`. What SQL stores share is in `holdfast.stores._shared`.
"""
