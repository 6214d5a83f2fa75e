"""Journals as plain files that people can read.

`store` its methods, `root` the directory and its lock, `run` one run's directory, `format` one file.
"""
