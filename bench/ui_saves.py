"""Saves a hundred times a second for some seconds: python -m bench.ui_saves STORE SECONDS."""

from __future__ import annotations

import sys
from time import monotonic, sleep

import holdfast as hf

if __name__ == "__main__":
    until = monotonic() + float(sys.argv[2])
    with hf.SyncCheckpointer(sys.argv[1]) as cp:
        number = 0
        while monotonic() < until:
            cp.save(f"busy-{number % 50}", {"n": number}, step="work")
            number += 1
            sleep(0.01)
