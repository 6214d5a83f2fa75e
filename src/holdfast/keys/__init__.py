"""Keys: rings that encrypt, keys that sign, and the files they are kept in.

Nothing here knows of entries, states or runs: the kernel says what is encrypted and signed. The
library `cryptography` is imported when it is first needed (extra `crypto`).
"""
