"""The names of the design documents that holdfast follows, as thin views of a checkpointer.

For readers of such a document: its examples run with only their imports changed. Nothing here
has a feature of its own, and nothing in holdfast depends on it. Document A's `CheckpointManager` is
a way to work in its own right and lives in `holdfast.manager`.
"""
