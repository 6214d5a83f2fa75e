"""One run while a process executes it: the loop, its steps, what is recorded, what is undone.

How a run begins or is continued is in `holdfast.engine.resume`.
"""
