"""State to bytes and back.

`values` is the packed form of plain data, `readable` the JSON form, `revive` turns plain data into
the caller's types; `delta` and `chain` store a state as changes; `compress` and `envelope` make
the body of an entry, with checksum and digest; `meta` has the keys of its metadata. Nothing here
reads or writes a store.
"""
