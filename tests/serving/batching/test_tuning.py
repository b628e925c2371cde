"""What is measured at the start lies in its bounds, and decides how the cores are shared."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.serving import save_every_kind
from weft.serving.batching.tuning import LEAST, MOST, tuned
from weft.utils.cores import cores


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("tuning")))


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_measured_values_are_usable(model):
    before = torch.get_num_threads()
    measured = tuned(model)
    assert measured.threads >= 1
    assert 1 <= measured.lanes * measured.threads <= cores()
    assert measured.overhead >= 0
    assert LEAST <= measured.tokens <= MOST
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_lanes_share_a_set_number_of_threads(model, threads):
    measured = tuned(model, threads)
    assert measured.lanes * measured.threads in (threads, threads - 1)


@pytest.mark.parametrize(("side_by_side", "expected"), [(1.9, (2, 1)), (1.02, (1, 2)), (0.8, (1, 2))])
def test_lanes_are_used_where_they_are_clearly_faster(model, monkeypatch, side_by_side, expected):
    rates = {(1, 2): 100.0, (2, 1): 100.0 * side_by_side}
    monkeypatch.setattr(
        "weft.serving.batching.tuning._passes_per_s", lambda model, lanes, count, *_: rates[lanes, count]
    )
    monkeypatch.setattr("weft.serving.batching.tuning._seconds", lambda *_, **__: 0.01)
    measured = tuned(model, 2)
    assert (measured.lanes, measured.threads) == expected


def test_one_text_alone_is_not_answered_much_later_for_more_texts_per_second(model, monkeypatch):
    monkeypatch.setattr(
        "weft.serving.batching.tuning._passes_per_s", lambda model, lanes, count, *_: float(lanes)
    )
    taken = {1: 0.04, 2: 0.02}
    monkeypatch.setattr(
        "weft.serving.batching.tuning._seconds", lambda *_, **__: taken[torch.get_num_threads()]
    )
    measured = tuned(model, 2)
    assert (measured.lanes, measured.threads) == (1, 2)
