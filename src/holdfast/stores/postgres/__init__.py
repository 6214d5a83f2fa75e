"""Journals in a PostgreSQL database: statements, schema and connections of this dialect.

What it shares with other SQL servers is in `holdfast.stores._shared`.
"""
