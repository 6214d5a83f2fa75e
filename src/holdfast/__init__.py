"""Checkpoints you can trust."""
