"""Journals in a MySQL or MariaDB database."""
