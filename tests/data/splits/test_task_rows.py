"""Further sets of a task, and halves."""

from __future__ import annotations

from dataclasses import replace

from tests.support.official import write_hub
from weft.data.splits.task_rows import rows_of_task
from weft.suites import find_suite


def test_a_set_with_test_rows_alone_is_no_part_of_halves(tmp_path):
    """GLUE's diagnostic set has no validation rows; the test split of halves is a half of validation."""
    write_hub(tmp_path, "glue")
    (plain,) = find_suite("glue", tmp_path, ["mnli"]).tasks
    halved = replace(plain, halves=True)
    assert set(plain.also) == {"mm", "ax"}
    names = ("validation", "test")
    assert ("mnli:ax", "test") in rows_of_task(plain, names).splits
    assert set(rows_of_task(halved, names).splits) == {
        (task, split) for task in ("mnli", "mnli:mm") for split in names
    }
