"""holdfast's own codecs, one module per library: pandas, Polars, pyarrow and torch.

Each is imported when a value of its library is met, or a stored one is loaded, and registers its
codecs then. What they store is described in docs/reference/format.md. They read data that may come
from anywhere: nothing of it is evaluated, unpickled or imported, and every length and code is
checked.
"""
