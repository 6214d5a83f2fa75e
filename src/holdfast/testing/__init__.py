"""A test kit for people who write their own store.

`contract` the tests that every store passes, `machine` random operations compared with a dict,
`invariants` what holds of any store at any time, `corpus` hostile ids and values. What only
holdfast's own tests use is in `tests/`.
"""
