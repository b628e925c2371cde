"""Predictions of parquet files with one schema can be read together, and copied values are exact."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import weft
from tests.support.corpora import InProcess, lines_of, write_bundle, write_corpus
from tests.support.predicting import predict
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("text", pa.string()),
        ("when", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.uint64()),
        ("raw", pa.binary()),
        ("tags", pa.map_(pa.string(), pa.int32())),
        ("nested", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.float32())]))])),
        ("listed", pa.list_(pa.struct([("d", pa.int16())]))),
        ("word", pa.dictionary(pa.int32(), pa.string())),
    ]
)
FULL = {
    "when": dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.UTC),
    "day": dt.date(2021, 2, 3),
    "price": decimal.Decimal("12.30"),
    "big": 2**64 - 1,
    "raw": b"\x00\xff",
    "tags": [("x", 1)],
    "nested": {"a": 1, "b": {"c": float("nan")}},
    "listed": [{"d": 3}, None],
    "word": "w",
}
COPIED = [name for name in SCHEMA.names if name not in ("n", "text")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("shards"))


@pytest.fixture(autouse=True)
def crew(monkeypatch):
    monkeypatch.setattr("weft.corpora.predict.local_crew", lambda workers: InProcess())


def write_shards(folder):
    """One with all values, one without any, one with bad rows alone, one without rows."""
    folder.mkdir()
    empty = dict.fromkeys(FULL)
    shards = {
        "a": [{"n": 1, "text": "the cat", **FULL}, {"n": 2, "text": "a dog", **empty}],
        "b": [{"n": 3, "text": "a cat", **empty}],
        "c": [{"n": 4, "text": "", **FULL}],
        "d": [],
    }
    for name, rows in shards.items():
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / f"{name}.parquet")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_shards_have_one_schema_and_the_values_of_the_input(bundle, tmp_path, capsys, first):
    files = write_shards(tmp_path / "in")
    out = tmp_path / "out"
    assert predict(capsys, bundle, *files, "--out", out, "--keep", "all", "--id", "n")[0] == 1
    outputs = sorted(out.glob("*.parquet"))
    assert len(outputs) == 4
    assert len({pq.read_schema(file) for file in outputs}) == 1
    outputs.insert(0, outputs.pop(first))  # its schema is that of the data set
    table = ds.dataset(outputs).to_table().sort_by("id")
    assert table.schema.field("id").type == pa.int32()
    assert table.schema.field("label").type == pa.string()
    assert table["probabilities.yes"].type == pa.float64()
    assert table["id"].to_pylist() == [1, 2, 3]
    names = [name for name in table.schema.names if name.startswith("input.")]
    nested = {"input.nested.a": pa.int64(), "input.nested.b.c": pa.float32()}
    plain = {f"input.{name}": SCHEMA.field(name).type for name in SCHEMA.names if name != "nested"}
    assert {name: table.schema.field(name).type for name in names} == plain | nested
    row = table.slice(0, 1).to_pylist()[0]
    for name in COPIED:
        if name != "nested":
            assert row[f"input.{name}"] == FULL[name]
    assert row["input.nested.a"] == 1
    assert row["input.nested.b.c"] != row["input.nested.b.c"]  # NaN
    assert all(table.slice(1, 1).to_pylist()[0][name] is None for name in names if name[6:] in COPIED)
    error = lines_of(out / "c.parquet.errors.jsonl")[0]
    assert (error["row"], error["id"], error["input"]["raw"]) == (1, 4, "00ff")


def test_one_file_to_parquet_and_to_json(bundle, tmp_path, capsys):
    file = write_shards(tmp_path / "in")[0]
    one = tmp_path / "one.parquet"
    assert predict(capsys, bundle, file, "--out", one, "--keep", "big,tags,raw")[0] == 0
    table = pq.read_table(one)
    assert table["input.raw"].to_pylist() == [b"\x00\xff", None]
    assert table["input.big"].to_pylist() == [2**64 - 1, None]
    code, rows, _ = predict(capsys, bundle, file, "--keep", "big,when,price")
    assert (code, rows[0]["input"]["big"], rows[0]["input"]["price"]) == (0, 2**64 - 1, "12.30")
    for options in ((), ("--out", tmp_path / "x.csv"), ("--out", tmp_path / "x.jsonl")):
        code, rows, told = predict(capsys, bundle, file, "--keep", "raw", *options)
        assert (code, rows, "which is no text; JSON and csv cannot hold it" in told) == (2, [], True)


def test_columns_that_would_have_one_name_are_refused(bundle, tmp_path, capsys):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": "a cat", "x.y": 1, "x": {"y": 2}}]), file)
    out = tmp_path / "out"
    out.mkdir()
    code, _, told = predict(capsys, bundle, file, "--out", out, "--keep", "all")
    assert (code, "would be written as 'input.x.y'" in told, "a.parquet" in told) == (1, True, True)
    assert predict(capsys, bundle, file, "--out", out, "--keep", "x")[0] == 0


def test_csv_without_answers_has_the_columns_of_answers(bundle, tmp_path, capsys):
    files = write_corpus(tmp_path / "in", {"a.csv": 3, "b.csv": 1, "c.csv": 1})
    header = files[0].read_text().splitlines()[0]
    files[1].write_text(header + "\n")
    files[2].write_text(header + '\n1,"",x\n')
    out = tmp_path / "out"
    assert predict(capsys, bundle, *files, "--out", out, "--keep", "n")[0] == 1
    headers = {(out / f"{name}.csv").read_text().splitlines()[0] for name in "abc"}
    assert headers == {"input.n,task,label,probabilities.no,probabilities.yes"}


def test_rows_of_mixed_tasks_have_the_columns_of_all_tasks(tmp_path, capsys):
    """Each shard is about a different task."""
    save_encoder(tmp_path / "encoder")
    tasks = (
        weft.Task("cat", labels=("no", "yes")),
        weft.Task("size", kind="regress"),
        weft.Task("words", kind="tag", labels=("O", "B-x", "I-x")),
    )
    model = weft.Model(tmp_path / "encoder", tasks, {"use": "lora", "rank": 2}, max_length=24)
    scramble(model, 1).save(tmp_path / "bundle")
    (tmp_path / "in").mkdir()
    for name in ("cat", "size", "words"):
        table = pa.Table.from_pylist([{"task": name, "text": "the cat sees"}])
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    files = sorted((tmp_path / "in").iterdir())
    for folder, options in (("mixed", ()), ("each", ("--tasks", "cat,size"))):
        out = tmp_path / folder
        assert predict(capsys, tmp_path / "bundle", *files, "--out", out, *options)[0] == 0
        schemas = {pq.read_schema(file) for file in out.glob("*.parquet")}
        assert len(schemas) == 1
    names = next(iter(schemas)).names
    assert names == [
        "cat.task",
        "cat.label",
        "cat.probabilities.no",
        "cat.probabilities.yes",
        "size.task",
        "size.value",
    ]
    mixed = ds.dataset(sorted((tmp_path / "mixed").glob("*.parquet"))).to_table()
    assert mixed.num_rows == 3
    assert pa.types.is_list(mixed["entities"].type)
    # a single file has the columns of the tasks that its rows name
    assert predict(capsys, tmp_path / "bundle", files[0], "--out", tmp_path / "one.csv")[0] == 0
    header = (tmp_path / "one.csv").read_text().splitlines()[0]
    assert header == "task,label,probabilities.no,probabilities.yes"
