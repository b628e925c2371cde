"""Records: written, read, packed, and refused if they are damaged."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.errors import WeftError
from weft.experiments.records import Record, Records, read_record, without_paths

ONE, TWO = "1" * 64, "2" * 64
RECORD = Record(
    identity=ONE,
    settings={"train": {"steps": 3}},
    metrics={"rte": {"accuracy": 0.5}, "mrpc": {"f1": 0.4, "accuracy": 0.3}},
    rows={"rte": 10, "mrpc": 20},
    statistics="AAAA",
    curve=[{"step": 1, "tasks": {"rte": {"accuracy": 0.5}}}],
    trace={"examples": [{"step": 3, "examples": {"rte": 12, "mrpc": 0}}]},
    seconds={"train": 1.5},
    step=3,
)


def test_a_record_comes_back_with_the_order_of_its_metrics(tmp_path):
    records = Records(tmp_path)
    records.write(RECORD)
    found = records.read(ONE)
    assert found == RECORD
    assert list(found.metrics) == ["rte", "mrpc"]
    assert list(found.metrics["mrpc"]) == ["f1", "accuracy"]
    assert records.read(TWO) is None
    assert RECORD.to_bytes() == RECORD.to_bytes()


def test_packing_and_unpacking(tmp_path):
    here, there = Records(tmp_path / "here"), Records(tmp_path / "there")
    here.write(RECORD)
    here.write(Record(identity=TWO))
    assert here.pack([ONE, TWO, "3" * 64], tmp_path / "all.records") == 2
    assert there.unpack(tmp_path / "all.records") == (2, 0)
    assert there.unpack(tmp_path / "all.records") == (0, 2)
    assert there.read(ONE) == RECORD
    assert there.pack([TWO, ONE], tmp_path / "again.records") == 2
    assert (tmp_path / "again.records").read_bytes() == (tmp_path / "all.records").read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(place=st.integers(0, 10_000), flipped=st.integers(1, 255))
def test_a_damaged_record_is_refused_or_unharmed(place, flipped):
    content = bytearray(RECORD.to_bytes())
    content[place % len(content)] ^= flipped
    try:
        found = read_record(bytes(content), "a record")
    except WeftError:
        return
    assert found == RECORD  # a byte of gzip's header that means nothing


@given(st.binary(max_size=200))
def test_any_bytes(content):
    with pytest.raises(WeftError):
        read_record(content, "a record")


def test_a_record_under_a_wrong_name(tmp_path):
    records = Records(tmp_path)
    records.write(RECORD)
    records.path(ONE).rename(records.path(TWO))
    with pytest.raises(WeftError, match=f"holds the record of {ONE}; delete it"):
        records.read(TWO)


@pytest.mark.parametrize("name", ["../../evil.json.gz", f"{TWO}.json.gz", "x"])
def test_a_packed_file_with_wrong_names(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.records", "w") as archive:
        archive.writestr(name, RECORD.to_bytes())
    with pytest.raises(WeftError, match="the file is damaged"):
        Records(tmp_path / "there").unpack(tmp_path / "a.records")
    assert not list(tmp_path.rglob("*.json.gz"))


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04"])
def test_a_file_that_is_not_packed(tmp_path, content):
    (tmp_path / "a.records").write_bytes(content)
    with pytest.raises(WeftError, match="is damaged, or no file of packed records"):
        Records(tmp_path).unpack(tmp_path / "a.records")


def test_no_file(tmp_path):
    with pytest.raises(WeftError, match="there is no file"):
        Records(tmp_path).unpack(tmp_path / "none")


def test_a_later_format():
    content = Record(identity=ONE, format=99).to_bytes()
    with pytest.raises(WeftError, match="a later version of weft"):
        read_record(content, "a record")


def test_a_record_of_an_earlier_version_has_no_trace():
    facts = json.loads(gzip.decompress(RECORD.to_bytes()))
    del facts["trace"]
    old = read_record(gzip.compress(json.dumps(facts).encode()), "a record")
    assert old == replace(RECORD, trace={})


def test_paths_are_left_out():
    found = without_paths(
        {"encoder": "/home/me/bert", "tasks": [{"train": "/data/a.csv", "kind": "classify"}]}
    )
    assert found == {"encoder": "bert", "tasks": [{"train": "a.csv", "kind": "classify"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": []}, "settings is list, expected dict"),
        ({"metrics": {"cat": 3}}, "metrics of 'cat' are no numbers"),
        ({"metrics": {"cat": {"accuracy": "x"}}}, "'accuracy' is 'x', expected a number"),
        ({"rows": {"cat": True}}, "'cat' is True, expected a number"),
        ({"statistics": 3}, "statistics is int, expected str"),
        ({"curve": [3]}, "its curve is no list of evaluations"),
        ({"trace": []}, "trace is list, expected dict"),
        ({"trace": {"examples": [{"step": 3}]}}, "trace.examples is no list of steps with numbers"),
        ({"memory": "much"}, "memory is str, expected int"),
        ({"step": True}, "step is bool, expected int"),
        ({"seconds": None}, "seconds is NoneType, expected dict"),
    ],
    ids=str,
)
def test_a_record_of_a_stranger_has_fields_of_their_types(change, message):
    record = Record("0" * 64, metrics={"cat": {"accuracy": 0.5}})
    assert read_record(record.to_bytes(), "here") == record
    with pytest.raises(WeftError, match=f"here is damaged: {message}"):
        read_record(replace(record, **change).to_bytes(), "here")
