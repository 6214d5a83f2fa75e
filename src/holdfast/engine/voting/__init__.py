"""Verification by others: a worker checks, when asked through the store, what its machine can see.

Here: `rows` (requests and votes, as they are stored), `asking` (the one who asks, and counts) and
`answering` (a worker). What votes come to is decided by `evidence/trust/voting.py`.
"""
