"""A keyword that an operation does not have: the message says which was probably meant."""

from __future__ import annotations

import pytest

from holdfast.engine.blocking import check_options

KNOWN = ("run_id", "store", "thread_id", "owner", "retry", "timeout", "trust", "take_over")


def refused(wrong: str, known: tuple[str, ...] = KNOWN) -> str:
    with pytest.raises(TypeError) as caught:
        check_options("run", [wrong], known)
    return str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("run_di", "run_id"),
        ("runid", "run_id"),
        ("Run_ID", "run_id"),
        ("time_out", "timeout"),
        ("takeover", "take_over"),
    ],
)
def test_a_misspelled_keyword_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    assert refused(wrong) == f"run has no option {wrong!r}; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("workflow_id", "run_id"),
        ("task_id", "run_id"),
        ("checkpoint_store", "store"),
        ("checkpointer", "store"),
        ("session", "thread_id"),
        ("thread", "thread_id"),
        ("max_retries", "retry"),
        ("user", "owner"),
        ("force", "take_over"),
    ],
)
def test_a_word_of_another_library_is_answered_with_ours(wrong: str, meant: str) -> None:
    assert refused(wrong).endswith(f"did you mean {meant!r}?")


def test_a_word_of_ours_is_answered_with_the_one_that_fits_here() -> None:
    assert refused("store", ("checkpointer", "services")).endswith("did you mean 'checkpointer'?")
    assert refused("run_id", ("workflow_id", "inputs")).endswith("did you mean 'workflow_id'?")


def test_a_keyword_like_no_other_is_answered_with_all_there_are() -> None:
    message = refused("colour", ("run_id", "timeout"))
    assert message == "run has no option 'colour'; it takes run_id, timeout"


def test_a_meaning_that_is_not_offered_here_is_not_suggested() -> None:
    assert "did you mean" not in refused("workflow_id", ("owner", "timeout"))


def test_known_keywords_pass() -> None:
    check_options("run", [], KNOWN)
    check_options("run", KNOWN, KNOWN)
