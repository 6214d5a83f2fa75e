"""How an existing run is continued.

`takeover` claims it, `history` reads what happened in it, `trust` decides which checkpoint to
continue from, `holders` says which process executes it, `recovery` resumes the orphans. What
happens once a run executes is in `holdfast.engine.run`.
"""
