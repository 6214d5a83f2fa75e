"""Flows that go from step to step along edges: what graphs and pipelines have in common."""
