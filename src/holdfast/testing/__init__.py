"""Test kits: for your own flows, and for people who write their own store.

`crash_at_every_step` kills a flow at every step and resumes it. For stores: `contract` the tests
that every store passes, `machine` random operations compared with a dict, `invariants` what holds
of any store at any time, `corpus` hostile ids and values. What only holdfast's own tests use is in
`tests/`.
"""

from holdfast.testing.crashing import CrashReport, CrashTestError, crash_at_every_step

__all__ = ["CrashReport", "CrashTestError", "crash_at_every_step"]
