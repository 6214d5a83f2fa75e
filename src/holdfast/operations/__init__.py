"""What a `Checkpointer` can do, one module per verb: save, load, fork, delete, copy, verify.

Each operation is written once, as a function of a `Core`; `holdfast.checkpointer` offers it sync
and async. Nothing here knows flows, steps or evidence; that is `holdfast.engine` and
`holdfast.evidence`.
"""
