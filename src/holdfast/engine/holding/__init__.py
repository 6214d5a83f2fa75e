"""Who executes a run, and whether that process is alive.

The process that executes a run is its holder. `process` says what a process is, `slots` are the
rows in the store that say which processes are alive, `presence` is this process in one store (its
slot, its lease, the runs it executes), and `observing` decides whether another holder is dead.
"""
