"""The kernel: how journals grow and are read in this process, for every operation above it.

Here belong the tips of journals, group commit, optimistic appends, deltas put together again, and
how one operation is driven sync and async. What users call is in `holdfast.operations`; how bytes
are made is in `holdfast.codec`; where they are kept is in `holdfast.stores`.
"""
