"""The command line: one module per command, named like it.

A command's module has one public name, `command`. Modules that begin with an underscore are what
commands share. Nothing but click is imported before a command runs.
"""
