"""`holdfast completion`: make a shell complete commands, options and run ids."""

import click
from click.shell_completion import get_completion_class

from holdfast.cli._session import Session, as_command


@as_command(
    'eval "$(holdfast completion bash)"    # in ~/.bashrc',
    'eval "$(holdfast completion zsh)"     # in ~/.zshrc',
    "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(session: Session, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and run ids."""
    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None, "it is one of the choices"
    script = kind(root.command, {}, "holdfast", "_HOLDFAST_COMPLETE").source()
    session.show({"shell": shell, "script": script}, lambda: click.echo(script))
