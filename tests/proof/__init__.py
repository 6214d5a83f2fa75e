"""The long fault programme, and RELIABILITY.md, the page that says what it found.

`python -m tests.proof` carries it out, part by part, and writes what each part did to
tests/proof/results/; `python -m tests.proof --page` writes the page from those files.
"""
