"""What `holdfast mcp` serves: the runs of a store, for models to look at, and to answer if allowed.

Here: which runs may be seen (`scope`), how much of a value is shown (`limits`), the tools (`tools`)
and the server (`server`, which needs the extra `mcp`). Not here: its options (`holdfast.cli.mcp`).
"""
