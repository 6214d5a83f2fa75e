"""Holdfast with other libraries: one package for each, which needs the extra of its name."""
