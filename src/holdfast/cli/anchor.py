"""`holdfast anchor`: one root over all runs, kept outside of the store."""

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.views import words


@as_command(
    "holdfast anchor --to /mnt/safe/anchors.jsonl",
    "holdfast anchor --to postgresql://audit/anchors",
    "holdfast anchor --to anchors.jsonl --prove nightly-31",
)
@option(
    "--to FILE|URL",
    "The file that gets one more anchor, or another store, by URL.",
    default="anchors.jsonl",
)
@option("--prove RUN", "Make no anchor: print a proof that the newest one in --to has this run.")
def command(session: Session, to: str, prove: str | None) -> None:
    """Write down the newest entry of every run, outside of the store, and one root over all.

    `holdfast verify --anchor` then finds what was cut off, replaced or removed since, also by
    somebody who can write to the store and computes every digest anew. Keep the file where they
    can't write, or publish the root: its 32 bytes stand for the whole list. Call it every night;
    each call adds one anchor. What is damaged already is anchored as it is: see
    `holdfast verify --chain`.

    A proof of one run fits the root alone, for who may not see the other runs: `holdfast verify
    --anchor PROOF --anchor-root ROOT` checks it, in a store that the run was imported to.
    """
    if prove is not None:
        with session.opened() as cp:
            _show.say(cp.prove_anchored(to, prove).line().decode().rstrip())
        return
    with session.opened() as cp:
        made = cp.anchor(to)

    def draw() -> None:
        _show.say(f"{words.plural(made.heads, 'head')} anchored in {_show.clean(to)}")
        _show.say(f"  root {made.root}")
        _show.say(f"  store {made.store_id}", "dim")

    session.show(made.to_dict(), draw)
