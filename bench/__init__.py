"""Benchmarks: fixed inputs, alternatives side by side in one run on one disk, JSON out."""
