"""Journals as plain files that people can read.

`store` has the methods of the store, `root` the directory and its lock, `run` the directory of one
run, `format` names and contents of one file, `index` the heads index, `changes` what changed since.
Durable writes are in `holdfast.stores._shared.disk`.
"""
