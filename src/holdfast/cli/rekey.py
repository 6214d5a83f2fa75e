"""`holdfast rekey`: new keys for an encrypted store."""

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.views import words


@as_command(
    "holdfast rekey --key-file ring.keys",
    "holdfast rekey --key-file ring.keys --cut-over",
)
@option("--new-data-keys", "Encrypt what is saved from now on with new data keys, too.")
@option(
    "--cut-over",
    "Accept what was saved without a key until now, and nothing without it from now on.",
)
def command(session: Session, new_data_keys: bool, cut_over: bool) -> None:
    """Wrap the data keys of a store with the newest key of the keyring.

    Then the older keys are not needed any more. What is stored is not touched, so this takes
    moments. It may be stopped at any time, and started again.

    With --cut-over, a store that was used without a key gets one: what is in it is accepted as it
    is now, and stays readable; all that is saved from now on is encrypted or signed. Stop all
    programs that use the store first, and give them the key.
    """
    with session.opened(whole=cut_over) as cp:
        if cut_over:
            accepted = cp.cut_over()
            session.show(
                {"accepted": accepted},
                lambda: _show.say(
                    f"{words.plural(accepted, 'journal')} accepted as they are; all that is saved "
                    "from now on needs the key"
                ),
            )
            return
        done = cp.rekey(new_data_keys=new_data_keys)
        session.show(
            done._asdict(),
            lambda: _show.say(
                f"the data keys of {words.plural(done.owners, 'owner')} are wrapped by the newest "
                f"key ({done.rewrapped} were not)"
            ),
        )
