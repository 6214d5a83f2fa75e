"""The names of the design documents that holdfast follows, as thin views of a checkpointer.

For readers of such a document: its examples run with only their imports changed. Nothing here
has a feature of its own, and nothing in holdfast depends on it. The names of the Maverick contract
are in `maverick`, those of IA Modules in `iamodules`, those of flowgraph in `flowgraph`. The
`CheckpointManager` of AgentOS ("Checkpoint Manager Design") is a way to work in its own right and
lives in `holdfast.manager`.
"""
