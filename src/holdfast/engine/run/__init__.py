"""One run while this process executes it.

`loop` is the run, `execute` executes its steps, `record` and `hold` put them into the journal,
`ending` completes, fails, cancels or rolls back. How a run is started or taken over is in
`holdfast.engine.launch` and `holdfast.engine.resume`.
"""
