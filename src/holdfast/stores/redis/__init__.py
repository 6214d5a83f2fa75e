"""Journals on a Redis or Valkey server or cluster."""
