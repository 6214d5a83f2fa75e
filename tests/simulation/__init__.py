"""A deterministic simulation of processes that share a store: the engine's own code, virtual time.

`loop` is the event loop and its processes, `machine` what each of them has (store, writer, core,
engine), `flows` what they execute, `world` what is observed and must stay true, `schedule` what
happens to them, `mutants` the mistakes that must be found. A schedule follows from its seed:

    python -m tests.simulation 4711 --trace
"""
