"""Journals in a MySQL or MariaDB database: `store`, its `schema` and its `connections`."""
