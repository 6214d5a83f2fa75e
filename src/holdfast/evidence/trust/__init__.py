"""Which checkpoints may be trusted: the claims recorded with a run, their verdicts, and the rule.

Nothing here looks at the world itself; it asks the verifier.
"""
