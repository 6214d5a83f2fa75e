"""State to bytes and back.

Here belong the packed and the readable form of values, the caller's types (`revive`), deltas and
how they chain, compression, the envelope around a body with its checksum and digest, and an
entry's metadata. Nothing here reads or writes a store.
"""
