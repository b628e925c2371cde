"""Names, formats and the order of partitions."""

from __future__ import annotations

import pytest

from tests.support.corpora import write_corpus
from weft.corpora.partition import output_name, partitions_of


@pytest.mark.parametrize(
    ("name", "written", "form"),
    [
        ("a.csv", "a.csv", "csv"),
        ("a.CSV.gz", "a.CSV.gz", "csv"),
        ("a.tab", "a.tab", "tsv"),
        ("a.parquet", "a.parquet", "parquet"),
        ("a.json", "a.json", "jsonl"),
        ("a.jsonl.gz", "a.jsonl.gz", "jsonl"),
        ("a.txt", "a.txt.jsonl", "jsonl"),
        ("a.txt.gz", "a.txt.jsonl", "jsonl"),
        ("a", "a.jsonl", "jsonl"),
    ],
)
def test_an_output_has_the_name_and_the_format_of_its_input(name, written, form):
    assert output_name(name) == (written, form)


def test_the_largest_file_is_first(tmp_path):
    files = write_corpus(tmp_path / "in", {"a.jsonl": 2, "b.jsonl": 9, "c.jsonl": 4})
    partitions = partitions_of(files, tmp_path / "out")
    assert [partition.input.name for partition in partitions] == ["b.jsonl", "c.jsonl", "a.jsonl"]
    assert all(partition.output.parent == tmp_path / "out" for partition in partitions)
