"""What is measured at the start: it lies in its bounds, and applies to the thread that runs the model."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.serving import save_every_kind
from weft.serving.tuning import LEAST, MOST, tuned


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return weft.load(save_every_kind(tmp_path_factory.mktemp("tuning")))


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_measured_values_are_usable(model):
    measured = tuned(model)
    assert measured.threads == torch.get_num_threads() >= 1
    assert measured.overhead >= 0
    assert LEAST <= measured.tokens <= MOST


def test_a_set_number_of_threads_is_used(model):
    assert tuned(model, 1).threads == 1
    assert torch.get_num_threads() == 1
