"""Every way to damage a stored entry, under every operation, in every store."""
