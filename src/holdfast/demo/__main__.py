"""`python -m holdfast.demo [directory]`."""

import sys
from pathlib import Path

from holdfast.demo import main

main(Path(sys.argv[1]) if sys.argv[1:] else None)
