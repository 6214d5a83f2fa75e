"""Journals on a Redis or Valkey server or cluster.

`store` its methods, `scripts` what the server does atomically, `link` the connection.
"""
