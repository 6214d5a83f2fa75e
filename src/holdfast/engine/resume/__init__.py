"""How runs begin and are continued: start, take over, what the journal says, which checkpoint to trust.

What happens once a run executes is in `holdfast.engine.run`.
"""
