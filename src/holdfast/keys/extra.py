"""What is said when `cryptography` is not installed."""


def without_cryptography(error: ImportError) -> ImportError:
    """The error to raise instead, which says how to install it."""
    text = (
        f"encryption and Ed25519 keys need {error.name or error}; install it with: "
        "pip install 'holdfast[crypto]'"
    )
    return ImportError(text, name=error.name)
