"""Stored bytes that somebody else wrote: they are data, whatever they say."""
