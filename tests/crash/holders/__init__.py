"""Who executes a run, tried with real processes: racing, killed, stopped, forked, on other hosts.

`hosts` starts the processes, some of them on foreign hosts; `tasks` is what they do, `flows` what
they execute, and `oracle` what they noted and whether any of it was done twice.

`HOLDFAST_HOLDER_RUNS` sets how many runs the storms have, `HOLDFAST_SHORT_LIVED` how many processes
come and go. Every failure of a storm prints its seed; `HOLDFAST_SEED` sets the first one.
"""
