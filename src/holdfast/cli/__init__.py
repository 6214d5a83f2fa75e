"""The command line: one module per command, named like it.

A command's module has a `command`, made by `as_command`, and is named in `main.SECTIONS`. Modules
that begin with an underscore are shared by commands. `main` imports nothing but click: a command's
module, and with it the library, is imported when the command is called.
"""
