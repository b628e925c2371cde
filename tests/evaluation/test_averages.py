"""The averages, on the papers' own rows (as in the PALs paper, Table 2, and the CA-MTL thesis, Table 3.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.evaluation.averages import AVERAGES, VALIDATION_ROWS, average
from weft.suites.overlaps import twin_name
from weft.suites.tables import read_yaml

# PALs, Table 2 (test): MNLI m, mm, QQP accuracy, F1, QNLI, SST-2, CoLA, STS-B, MRPC accuracy, F1, RTE; Av.
PALS_TABLE_2 = {
    "BERT-base, separate": ((84.6, 83.4, 89.2, 71.2, 90.1, 93.5, 52.1, 85.8, 84.8, 88.9, 66.4), 79.6),
    "shared": ((84.0, 83.4, 88.9, 70.8, 89.3, 93.4, 51.2, 83.6, 81.3, 86.7, 76.6), 79.9),
    "top projected attention": ((84.0, 83.2, 88.8, 71.2, 89.7, 93.2, 47.1, 85.3, 83.1, 87.5, 75.5), 79.6),
    "PALs (204)": ((84.3, 83.5, 89.2, 71.5, 90.0, 92.6, 51.2, 85.8, 84.6, 88.7, 76.0), 80.4),
}
# CA-MTL, Table 3.2 (test): CoLA, MNLI m, mm, MRPC F1, QNLI, QQP F1, RTE, SST-2, STS-B; Avg
CA_MTL_TABLE_3_2 = {
    "BERT-base separate": ((52.1, 84.6, 83.4, 88.9, 90.5, 71.2, 66.4, 93.5, 85.8), 79.6),
    "BERT-base MTL": ((51.2, 84.0, 83.4, 86.7, 89.3, 70.8, 76.6, 93.4, 83.6), 79.9),
    "PALs + annealed": ((51.2, 84.3, 83.5, 88.7, 90.0, 71.5, 76.0, 92.6, 85.8), 80.4),
    "CA-MTL base": ((53.1, 85.9, 85.8, 88.6, 90.5, 69.2, 76.4, 93.2, 85.3), 80.9),
    "BERT-large separate": ((60.5, 86.7, 85.9, 89.3, 92.7, 72.1, 70.1, 94.9, 86.5), 82.1),
    "CA-MTL large": ((59.5, 85.9, 85.4, 89.3, 92.6, 71.4, 79.0, 94.7, 87.7), 82.8),
}


def tasks_of(**values):
    """`mnli_accuracy=84.6` as {"mnli": {"accuracy": 0.846}}."""
    tasks = {}
    for name, value in values.items():
        task, _, metric = name.partition("_")
        tasks.setdefault(task, {})[metric] = value / 100
    return tasks


def pals_tasks(row):
    names = (
        *("mnli_accuracy", "mnli_accuracy_mm", "qqp_accuracy", "qqp_f1", "qnli_accuracy", "sst2_accuracy"),
        *("cola_matthews", "stsb_spearman", "mrpc_accuracy", "mrpc_f1", "rte_accuracy"),
    )
    return tasks_of(**dict(zip(names, row, strict=True)))


def ca_mtl_tasks(row):
    names = (
        *("cola_matthews", "mnli_accuracy", "mnli_accuracy_mm", "mrpc_f1", "qnli_accuracy", "qqp_f1"),
        *("rte_accuracy", "sst2_accuracy", "stsb_spearman"),
    )
    return tasks_of(**dict(zip(names, row, strict=True)))


ROWS = [
    *((f"PALs: {name}", pals_tasks(row), printed) for name, (row, printed) in PALS_TABLE_2.items()),
    *((f"CA-MTL: {name}", ca_mtl_tasks(row), printed) for name, (row, printed) in CA_MTL_TABLE_3_2.items()),
]


@pytest.mark.parametrize(("name", "tasks", "printed"), ROWS, ids=[name for name, _, _ in ROWS])
def test_glue9_is_what_the_papers_print(name, tasks, printed):
    found = average("glue9", tasks)
    assert (found.count, found.missing) == (9, ())
    assert round(100 * found.value, 1) == printed


def test_of_accuracy_and_f1_the_second_is_meant():
    """The caption of PALs' Table 2 says the other order; with the other column, no average comes out."""
    for row, printed in PALS_TABLE_2.values():
        tasks = pals_tasks(row)
        for task in ("qqp", "mrpc"):
            tasks[task]["f1"], tasks[task]["accuracy"] = tasks[task]["accuracy"], tasks[task]["f1"]
        assert round(100 * average("glue9", tasks).value, 1) > printed + 1


def test_a_row_whose_printed_average_is_not_its_own():
    """Table 3.2 prints 80.0 for Adapters-256, whose row averages 81.5."""
    row = ca_mtl_tasks((59.5, 84.9, 85.1, 89.5, 90.7, 71.8, 71.5, 94.0, 86.9))
    assert round(100 * average("glue9", row).value, 1) == 81.5


def test_the_development_row_of_ca_mtl():
    """Table 3.9 prints 84.03; its nine rounded values give 84.04."""
    row = ca_mtl_tasks((60.9, 82.7, 83.1, 88.9, 90.7, 90.3, 79.1, 91.9, 88.8))
    assert 100 * average("glue9", row).value == pytest.approx(84.04, abs=0.005)


def test_pals_dev_takes_accuracy_matched_and_pearson():
    tasks = {
        "mnli": {"accuracy": 0.8, "accuracy_mm": 0.1},
        "qqp": {"f1": 0.1, "accuracy": 0.9},
        "mrpc": {"f1": 0.1, "accuracy": 0.7},
        "stsb": {"pearson": 0.6, "spearman": 0.1},
        "cola": {"matthews": 0.5, "accuracy": 0.1},
        **{task: {"accuracy": 0.4} for task in ("qnli", "sst2", "rte")},
        "wnli": {"accuracy": 0.1},
    }
    found = average("pals_dev", tasks)
    assert found.count == 8
    assert found.value == pytest.approx((0.8 + 0.9 + 0.7 + 0.6 + 0.5 + 3 * 0.4) / 8)


def test_superglue_takes_the_mean_of_a_tasks_metrics():
    tasks = {
        **{task: {"accuracy": 0.5} for task in ("boolq", "copa", "rte", "wic", "wsc")},
        "cb": {"accuracy": 0.9, "macro_f1": 0.7},
        "multirc": {"f1a": 0.6, "question_em": 0.2},
        "record": {"token_f1": 0.8, "exact_match": 0.6},
    }
    assert average("superglue", tasks).value == pytest.approx((5 * 0.5 + 0.8 + 0.4 + 0.7) / 8)
    del tasks["multirc"]["question_em"]  # half a task is none
    found = average("superglue", tasks)
    assert found.value is None
    assert [part.name for part in found.missing] == ["multirc (f1a + question_em)/2"]
    assert found.partial == pytest.approx((5 * 0.5 + 0.8 + 0.7) / 7)


@given(st.sampled_from(sorted(AVERAGES)), st.data())
def test_a_missing_value_is_told(name, data):
    parts = AVERAGES[name]
    values = data.draw(st.lists(st.floats(-1, 1), min_size=len(parts), max_size=len(parts)))
    kept = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    tasks = {}
    for part, value, keep in zip(parts, values, kept, strict=True):
        if keep:  # with their suites' names, which matter if two suites have a task of one name
            task = twin_name(part.suite, part.task)
            tasks.setdefault(task, {}).update(dict.fromkeys(part.metrics, value))
    found = average(name, tasks)
    there = [value for value, keep in zip(values, kept, strict=True) if keep]
    assert list(found.values.values()) == pytest.approx(there)
    assert found.missing == tuple(part for part, keep in zip(parts, kept, strict=True) if not keep)
    if there:
        assert found.partial == pytest.approx(sum(there) / len(there), abs=1e-12)
    assert found.value == (found.partial if all(kept) else None)
    assert found.count == len(parts)


def test_an_unknown_average():
    with pytest.raises(WeftError, match="average 'glue' does not exist; did you mean 'glue9'"):
        average("glue", {})


# CA-MTL, Table 3.4: GLUE, SuperGLUE, MRQA, NER; Avg
CA_MTL_TABLE_3_4 = {
    "BERT-large separate": ((84.5, 68.9, 79.7, 54.1), 76.8),
    "BERT-large MTL": ((83.2, 72.1, 77.8, 42.2), 76.4),
    "BERT-large CA-MTL": ((86.6, 74.1, 79.5, 49.0), 79.1),
    "RoBERTa-large separate": ((88.2, 76.5, 83.6, 57.8), 81.9),
    "RoBERTa-large MTL": ((86.0, 78.6, 80.7, 49.3), 80.7),
    "RoBERTa-large CA-MTL": ((89.4, 80.0, 82.4, 55.2), 83.1),
}


@pytest.mark.parametrize("name", CA_MTL_TABLE_3_4)
def test_the_average_over_24_tasks_is_what_the_thesis_prints(name):
    """The printed averages follow from 9, 8, 6 and 1 values; rte is in two groups."""
    groups, printed = CA_MTL_TABLE_3_4[name]
    tasks = {}
    for group, value in zip(("glue9", "superglue", "mrqa", "ner"), groups, strict=True):
        for part in AVERAGES[group]:
            task = "superglue_rte" if (part.suite, part.task) == ("superglue", "rte") else part.task
            tasks.setdefault(task, {}).update(dict.fromkeys(part.metrics, value / 100))
    for group, value in zip(("glue9", "superglue", "mrqa", "ner"), groups, strict=True):
        assert 100 * average(group, tasks).value == pytest.approx(value)
    everything = average("ca_mtl24", tasks)
    assert everything.count == 24
    assert round(100 * everything.value, 1) == printed


def test_every_value_of_an_average_is_a_metric_of_its_suite():
    for parts in AVERAGES.values():
        for part in parts:
            table = read_yaml(part.suite)["tasks"]
            metrics = {name.removesuffix("_mm") for name in part.metrics}
            assert metrics <= set(table[part.task]["metrics"])


def test_every_task_of_an_average_has_an_official_size():
    assert {part.task for parts in AVERAGES.values() for part in parts} == set(VALIDATION_ROWS)
