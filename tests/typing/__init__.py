"""What type checkers infer."""  # noqa: A005 - it is never imported by that name alone
