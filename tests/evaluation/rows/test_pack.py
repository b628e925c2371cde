"""Row statistics as bytes: lossless, small, and clear about damage."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tests.support.answers import ANSWERS
from tests.support.more import examples
from tests.support.simulated_glue import set_rows, simulated_run
from weft.errors import WeftError
from weft.evaluation.rows import RunRows, SetRows, pack, unpack
from weft.metrics import METRICS
from weft.metrics.rows import Units


def assert_equal(run: RunRows, other: RunRows) -> None:
    assert list(run.sets) == list(other.sets)
    for name, rows in run.sets.items():
        read = other.sets[name]
        assert (rows.rows, rows.gold, rows.scores) == (read.rows, read.gold, read.scores)
        assert rows.units.count == read.units.count
        assert (rows.units.of is None) == (read.units.of is None)
        if rows.units.of is not None:
            np.testing.assert_array_equal(rows.units.of, read.units.of)
        assert rows.arrays.keys() == read.arrays.keys()
        for metric, arrays in rows.arrays.items():
            assert arrays.keys() == read.arrays[metric].keys()
            for key, array in arrays.items():
                stored = read.arrays[metric][key]
                assert stored.shape == array.shape
                assert (stored.dtype.kind == "f") == (array.dtype.kind == "f")
                np.testing.assert_array_equal(stored, array)


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=examples(15), deadline=None)
@given(drawn=st.data(), rows=st.integers(0, 8))
def test_every_metric_is_packed_without_loss(name, drawn, rows):
    answers = "two labels" if METRICS[name].labels == 2 else METRICS[name].compares[0]
    groups = drawn.draw(st.none() | st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    run = RunRows({"a": set_rows((name,), *drawn.draw(ANSWERS[answers](rows)), groups)})
    read = unpack(pack(run))
    assert_equal(run, read)
    stored = METRICS[name].rows.evaluator([read.sets["a"].arrays[name]], read.sets["a"].units)
    assert stored(np.ones((1, read.sets["a"].units.count)))[0, 0] == pytest.approx(
        read.sets["a"].scores[name]
    )


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        arrays_of.arrays(
            st.sampled_from(["bool", "uint8", "int8", "int32", "int64", "uint64", "float32", "float64"]),
            st.tuples(st.integers(0, 40)) | st.tuples(st.integers(0, 9), st.integers(0, 3)),
        ),
        max_size=5,
    )
)
def test_any_arrays_are_packed_without_loss(arrays):
    named = {str(number): array for number, array in enumerate(arrays)}
    run = RunRows({"a": SetRows(3, Units(3), "g", {"x": 0.1}, {"x": named, "y": dict(named)})})
    data = pack(run)
    assert_equal(run, unpack(data))
    assert pack(unpack(data)) == data


def test_a_run_over_glue_takes_about_15_kilobytes():
    run = simulated_run(0, 0)
    data = pack(run)
    assert len(data) < 15_000
    assert_equal(run, unpack(data))


def test_columns_of_two_labels_take_two_bits():
    """Accuracy and F1 of one task cost as much as its confusion matrix; the same arrays cost nothing."""
    draw = np.random.default_rng(0)
    gold, predictions = draw.integers(0, 2, 8_000), draw.integers(0, 2, 8_000)
    sizes = {
        metrics: len(pack(RunRows({"a": set_rows(metrics, gold, predictions)})))
        for metrics in [("accuracy",), ("f1",), ("accuracy", "f1"), ("accuracy", "f1", "f1a", "matthews")]
    }
    assert sizes["accuracy",] < 1_300
    assert sizes["accuracy", "f1"] < 2_400
    assert sizes["accuracy", "f1", "f1a", "matthews"] < 2_500


def test_what_is_not_row_statistics_is_refused():
    data = pack(simulated_run(0, 0).only({"rte"}))
    with pytest.raises(WeftError, match="no row statistics of weft"):
        unpack(b"PK\x03\x04 something else entirely")
    with pytest.raises(WeftError, match="no row statistics of weft"):
        unpack(b"")
    with pytest.raises(
        WeftError, match=r"cells/a\.rows: row statistics of version 9; this weft reads version 1"
    ):
        unpack(data[:8] + b"\x09" + data[9:], "cells/a.rows")
    with pytest.raises(TypeError, match="booleans, integers or floats"):
        pack(RunRows({"a": SetRows(1, Units(1), "g", {}, {"x": {"y": np.array(["text"])}})}))


def test_every_damaged_byte_is_noticed():
    data = pack(simulated_run(0, 0).only({"rte", "cola"}))
    draw = np.random.default_rng(0)
    for place in draw.integers(0, len(data), 150):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(draw.integers(8))
        with pytest.raises(WeftError):
            unpack(bytes(damaged))
    for length in draw.integers(0, len(data), 50):
        with pytest.raises(WeftError):
            unpack(data[:length])


HEADERS = {
    "not JSON": b"{",
    "no sets": b'{"blocks":[]}',
    "a list": b"[]",
    "sets of the wrong type": b'{"sets":3,"blocks":[]}',
    "a block of objects": b'{"sets":{},"blocks":[{"types":["|O"],"shape":[1],"bytes":0}]}',
    "a huge array": b'{"sets":{},"blocks":[{"types":["|u1"],"shape":[99999999999],"bytes":0}]}',
    "a negative shape": b'{"sets":{},"blocks":[{"types":["|u1"],"shape":[-1],"bytes":0}]}',
    "too few bytes": b'{"sets":{},"blocks":[{"types":["<f8"],"shape":[4],"bytes":0}]}',
    "a place without block": b'{"sets":{"a":{"rows":1,"units":[1,[0,0]]}},"blocks":[]}',
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_wrong_header_with_a_right_checksum_is_a_clear_error(case):
    small = zlib.compress(HEADERS[case])
    body = struct.pack("<I", len(small)) + small
    data = struct.pack("<8sBI", b"weftrows", 1, zlib.crc32(body)) + body
    with pytest.raises(WeftError, match="damaged"):
        unpack(data)
