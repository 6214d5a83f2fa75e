"""Looking at the world, bounded: files, addresses, HTTP, databases and commands, within a policy.

What a claim says and which verdict it gets is in `holdfast.evidence.checks`.
"""
