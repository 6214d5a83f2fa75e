"""Which checkpoints may be trusted. `rule.py` decides; nothing here looks at the world itself.

`gathering` finds the claims recorded on a branch, `rule` says which of them bind a
checkpoint, `checking` asks the verifier about those and lets `rule` decide, `records` keeps claims
and verdicts in journals.
"""
