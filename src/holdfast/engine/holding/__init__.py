"""Who executes a run, and whether that process is alive.

The process that executes a run is its holder. `process` says what a process is, `slots` are the
rows in the store that say which processes are alive, `lease` is the right that a slot gives,
`presence` is a process in one store (its slot, its lease, the runs it executes), `here` is this
process, and `observing` decides whether another holder is dead.
"""
