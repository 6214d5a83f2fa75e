"""How an existing run is continued.

`takeover` claims it, `history` reads what happened in it, `trust` decides which checkpoint to
continue from, `activity` says whether it is executed, `recovery` resumes the orphans. Which process
executes it is decided in `holdfast.engine.holding`; what happens then is in `holdfast.engine.run`.
"""
