"""What people and programs are shown of a store, made once for all who show it.

The command line, its `--json`, the web UI and the REST API show the same documents. Here: what is
in them, as plain data, and the words for times, sizes and commands. Not here: how it is drawn.
Everything blocks, and nothing writes but where it says so.
"""
