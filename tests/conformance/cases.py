"""Every method on every family, and the models of these cases."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

from tests.conformance.table import METHODS
from tests.support.tiny import FAMILIES, build, scramble, tiny

CASES = [pytest.param(m, f, id=f"{m}-{f}") for f in FAMILIES for m in METHODS]
# by the scope all tests of a case follow each other, so that a model that none changes is built once for them
every_case = pytest.mark.parametrize(("method", "family"), CASES, scope="module")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def model_of(method: str, family: str, **settings):
    return scramble(build(family, METHODS[method], **settings))


@lru_cache(maxsize=4)
def at_start(method: str, family: str):
    """A model before any step, for tests that change nothing of it."""
    return build(family, METHODS[method])


@lru_cache(maxsize=4)
def shared(method: str, family: str):
    """`model_of` for tests that change nothing of it."""
    return model_of(method, family)


@lru_cache(maxsize=4)
def bare_of(family: str):
    """The family's encoder, for tests that change nothing of it."""
    return tiny(family)


def assert_near(found, expected):
    torch.testing.assert_close(found, expected, **CLOSE)


def real(x, mask):
    """The hidden states at real tokens."""
    return x[mask.bool()]
