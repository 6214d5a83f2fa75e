"""The kernel: how journals grow and are read in this process, for every operation above it.

Here: the heads of journals as this process knows them (`journal`), group commit (`writer`),
optimistic appends (`appending`), reading states from their deltas (`reader`), and how one
operation is driven sync and async (`core`). What users call is in `holdfast.operations`; how bytes
are made is in `holdfast.codec`; where they are kept is in `holdfast.stores`.
"""
