"""Which files are one task."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.data.drafting.grouping import group_files, split_of, stem_of
from weft.errors import WeftError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reviews_train.csv", ("reviews", "train")),
        ("reviews-dev.tsv.gz", ("reviews", "validation")),
        ("test_reviews.jsonl", ("reviews", "test")),
        ("reviews.valid.csv", ("reviews", "validation")),
        ("train.parquet", ("", "train")),
        ("dev-v1.1.json", ("v1.1", "validation")),
        ("the_test_results.csv", ("the_test_results", None)),
        ("validation_matched.parquet", ("matched", "validation")),
        ("news.csv", ("news", None)),
        ("contest.csv", ("contest", None)),
        ("train-00000-of-00001.parquet", ("00000-of-00001", "train")),
    ],
)
def test_splits_by_name(name, expected):
    assert split_of(Path(name)) == expected


def test_the_ending_is_not_part_of_the_name():
    assert [stem_of(Path(name)) for name in ("a.b.csv.gz", "x.conll", "y.txt")] == ["a.b", "x", "y"]


def made(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return [folder / name for name in names]


def names(groups):
    return {group.name: {split: file.name for split, file in group.files.items()} for group in groups}


def test_files_that_belong_together(tmp_path):
    files = made(tmp_path, "b.jsonl", "a_train.csv", "a_dev.csv", "a_test.csv")
    groups = group_files(files)
    assert names(groups) == {
        "a": {"train": "a_train.csv", "validation": "a_dev.csv", "test": "a_test.csv"},
        "b": {"train": "b.jsonl"},
    }
    assert [group.name for group in groups] == ["b", "a"]  # as they were given


def test_a_folder_names_its_task(tmp_path):
    made(tmp_path / "cola", "train.tsv", "dev.tsv", "README.txt", ".hidden.csv")
    expected = {"cola": {"train": "train.tsv", "validation": "dev.tsv"}}
    assert names(group_files([tmp_path / "cola"])) == expected
    assert names(group_files([tmp_path])) == expected  # a folder of folders


def test_a_validation_file_with_a_longer_name(tmp_path):
    made(tmp_path / "mnli", "train.csv", "dev_matched.csv", "dev_mismatched.csv")
    (group,) = group_files([tmp_path / "mnli"])
    assert group.files["validation"].name == "dev_matched.csv"
    assert "dev_mismatched.csv is not used" in group.notes[0]


def test_named_tasks(tmp_path):
    one, two, three = made(tmp_path, "one.csv", "two.csv", "x_test.csv")
    (group,) = group_files([], {"mine": [one, two, three]})
    assert group.files == {"train": one, "validation": two, "test": three}
    with pytest.raises(WeftError, match="at most three"):
        group_files([], {"mine": [one, two, three, tmp_path / "four.csv"]})


def test_a_single_file_is_for_training(tmp_path):
    (file,) = made(tmp_path / "x", "test.csv")
    (group,) = group_files([file])
    assert group.files == {"train": file}
    assert "only file" in group.notes[0]


def test_a_task_without_a_training_file_is_refused(tmp_path):
    with pytest.raises(WeftError, match=r"has no training file; found x_dev\.csv, x_test\.csv"):
        group_files(made(tmp_path, "x_dev.csv", "x_test.csv"))


def test_names_are_valid_and_distinct(tmp_path):
    files = [*made(tmp_path / "1", "Umfrage 2024 (neu).csv"), *made(tmp_path / "2", "Umfrage 2024 (neu).csv")]
    assert list(names(group_files(files))) == ["Umfrage_2024_neu", "Umfrage_2024_neu_2"]
    assert list(names(group_files(made(tmp_path / "3", "日本.csv")))) == ["task"]


def test_an_empty_folder(tmp_path):
    with pytest.raises(WeftError, match="no data file"):
        group_files([tmp_path])
