"""Journals as plain files that people can read."""
