"""Executes flows, whatever they are written as: one run loop behind `program.Program`.

`launch` starts, resumes and executes a run; `run/` is a run while it executes; `resume/` is how
one is taken over; `people/` asks and answers; `walking/` is what graphs and pipelines share. How
a flow is written belongs in `holdfast.workflow`, `graph` and `pipeline`, what a claim is worth in
`holdfast.evidence`.
"""
