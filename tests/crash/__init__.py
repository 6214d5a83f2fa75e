"""Everything holdfast must survive: kills, failing system calls, power loss, flipped bits, rivals.

`HOLDFAST_CRASH_CYCLES`, `HOLDFAST_REQUESTS`, `HOLDFAST_POWER_STATES` and `HOLDFAST_MUTATIONS` set how
long it goes on.
Every failure prints the seed that reproduces it; `HOLDFAST_SEED` sets the first one.
"""
