"""A server with a task of every kind, and its page in a browser."""

from __future__ import annotations

import pytest

import weft
from tests.support import browser as browsers
from tests.support.every_kind import write_every_kind
from tests.support.serving_page import REFUSED, page_of, serving
from weft import cli


@pytest.fixture(scope="module")
def started():
    with browsers.browser() as running:
        yield running


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, token_cache):
    """A run with a task of every kind."""
    folder = tmp_path_factory.mktemp("kinds")
    file = write_every_kind(folder, {"steps": 2, "batch_size": 14, "max_length": 24, "seed": 3}, layers=1)
    assert cli.run(["train", str(file), "--out", str(folder / "run"), "--device", "cpu"]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def model(bundle):
    return weft.load(bundle, device="cpu")


@pytest.fixture(scope="module")
def address(bundle):
    with serving(bundle) as running:
        yield running


@pytest.fixture
def shown(started, address):
    """The page; at the end nothing else is in the console, and no request went elsewhere."""
    with page_of(started, address) as opened:
        yield opened
        assert [error for error in opened.errors if not error.startswith(REFUSED)] == []
        assert [url for url in opened.requests if not url.startswith((f"{address}/", "data:", "blob:"))] == []
