"""Names of repositories, and errors of the hub's client in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.utils.hub_repository import (
    Repository,
    check_not_in_cache,
    first_line,
    hub_error,
    in_hub_cache,
    repository,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("anna/reviews", Repository("anna/reviews")),
        ("anna/reviews-1.5_b", Repository("anna/reviews-1.5_b")),
        ("anna/reviews@v2", Repository("anna/reviews", "v2")),
        ("anna/reviews@refs/pr/1", Repository("anna/reviews", "refs/pr/1")),
        (Path("anna") / "reviews", Repository("anna/reviews")),
        ("reviews", None),
        ("a/b/c", None),
        ("/anna/reviews", None),
        ("../reviews", None),
        ("anna/..", None),
        ("anna/re--views", None),
        ("anna/reviews@", None),
        ("anna/reviews@../x", None),
        ("anna/reviews@-x", None),
        ("anna/re views", None),
        ("anna/reviews.git", None),
        ("anna/reviews\n", None),
        ("", None),
    ],
)
def test_what_is_a_repository(name, expected):
    assert repository(name) == expected


def test_the_text_of_a_repository_names_it_again():
    for name in ("anna/x", "anna/x@v1"):
        assert str(repository(name)) == name


def test_folders_of_the_cache(tmp_path):
    snapshot = tmp_path / "models--anna--x" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    assert in_hub_cache(snapshot) == "anna/x"
    assert in_hub_cache(tmp_path) is None
    check_not_in_cache(tmp_path)
    with pytest.raises(WeftError, match="anna/x was loaded from the hub"):
        check_not_in_cache(snapshot)


def test_any_error_is_one_message():
    for error in (OSError(28, "No space left on device"), ValueError("\n\n first \nsecond"), RuntimeError()):
        message = str(hub_error(error, Repository("anna/x"), "cannot be loaded"))
        assert message.startswith("anna/x cannot be loaded: ")
        assert message.count("\n") == 1
    assert first_line(ValueError("\n\n first \nsecond")) == "first"
    assert first_line(RuntimeError()) == "RuntimeError"
