"""Journals on a Redis or Valkey server or cluster.

`store` has the methods of the store, `scripts` the Lua that the server runs atomically, `link` the
connection and `errors` the translation of the driver's. What other stores need too is in
`holdfast.stores._shared`.
"""
