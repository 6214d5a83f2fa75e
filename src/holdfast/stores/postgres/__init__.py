"""Journals in a PostgreSQL database: `store`, its `schema` and its `connections`."""
