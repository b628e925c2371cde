import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.core.layout import Layout
from weft.errors import WeftError
from weft.tasks import Task, check_tasks
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.collate import Places

ALONE = Places((), 0)
LAYOUT = Layout(None, 0)


def test_sizes():
    assert Task("a", labels=("x", "y", "z")).head == "classify-3"
    assert Task("a", size=7).head == "classify-7"
    assert Task("a", "regress").head == "regress-1"
    assert Task("a", "regress", size=3).head == "regress-3"
    assert Task("a", "regress", label=("x", "y")).head == "regress-2"


def test_labels_by_name_id_or_truth():
    parse = KINDS["classify"]().parse
    assert [parse([v], ("no", "yes")) for v in ("yes", 1, "1", 1.0, "0")] == [1, 1, 1, 1, 0]
    assert [parse([v], ("true", "false")) for v in (True, "false", 1)] == [0, 1, 1]
    assert parse(["1"], ("2", "1")) == 1  # a name wins over an id
    # names that are numbers: a table's 1.0 is the label named 1, and ids are never guessed
    assert [parse([v], ("1", "0")) for v in (1.0, 0.0, "1.0", 1)] == [0, 1, 0, 0]
    with pytest.raises(ValueError, match=r"one of 1, 2, 3$"):
        parse([0], ("1", "2", "3"))
    for wrong in ("maybe", 2, -1, None, 0.5, True):
        with pytest.raises(ValueError, match="one of no, yes, or an id from 0 to 1"):
            parse([wrong], ("no", "yes"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Task("a/b", size=2), "task name 'a/b'"),
        (lambda: Task("", size=2), "task name ''"),
        (lambda: Task("a", "clasify"), "kind 'clasify' does not exist; did you mean 'classify'"),
        (lambda: Task("a"), "task 'a': classify needs two labels or more; found 0"),
        (lambda: Task("a", labels=("x", "x")), "label 'x' is listed twice"),
        (lambda: Task("a", labels=("x", "y"), size=3), "size 3 does not match its 2 labels"),
        (lambda: Task("a", "regress", labels=("x",)), "regress has no labels"),
        (lambda: Task("a", "regress", size=0), "found size 0"),
        (lambda: Task("a", "regress", size=3, label=("x", "y")), "2 label columns do not match size 3"),
        (lambda: Task("a", labels="yes"), "labels: expected a list; found 'yes'"),
        (lambda: Task("a", size="2"), "size: expected a whole number; found '2'"),
        (lambda: Task(1, size=2), "task name 1 cannot be used"),
        (lambda: check_tasks([]), "no tasks"),
        (lambda: check_tasks([Task("a", size=2), Task("a", size=3)]), "two tasks are named 'a'"),
        (lambda: check_tasks(["a"]), "expected a weft.Task; found 'a'"),
    ],
)
def test_tasks_that_cannot_be(call, message):
    with pytest.raises(WeftError, match=message):
        call()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(2, 5))
def test_classify_is_cross_entropy_and_finite_for_strangers(labels, size):
    kind = KINDS["classify"]()
    logits = torch.randn(len(labels), size)
    found = kind.loss(logits, kind.collate(labels, [True] * len(labels), ALONE), LAYOUT)
    assert found.isfinite().all()
    for e, label in enumerate(labels):
        if label < size:
            torch.testing.assert_close(found[e], -logits[e].log_softmax(-1)[label])


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_regress_is_squared_error(values):
    kind = KINDS["regress"]()
    logits = torch.randn(len(values), 1)
    found = kind.loss(logits, kind.collate(values, [True] * len(values), ALONE), LAYOUT)
    torch.testing.assert_close(found, (logits[:, 0] - torch.tensor(values)).square())


def test_a_range_of_numbers_is_learnt_as_zero_to_one():
    task = Task("s", "regress", range=[1, 5])
    assert task.range == (1.0, 5.0)
    assert task.target(3) == 0.5
    assert Task("s", "regress", size=2, range=(0, 4)).target([1, 4]) == [0.25, 1.0]
    outputs = np.array([[-1.0], [0.25], [2.0]], dtype=np.float32)
    assert task.in_range(outputs).tolist() == [[1.0], [2.0], [5.0]]
    assert task.in_range(outputs).dtype == np.float32
    assert Task(**{k: tuple(v) if isinstance(v, list) else v for k, v in task.settings().items()}) == task
    assert Task("s", "regress").target(3) == 3


@pytest.mark.parametrize(
    "wrong", [(5, 0), (0,), "05", (0, float("nan")), 5, ("a", "b"), {0: 1, 5: 2}, (False, True)]
)
def test_a_wrong_range_is_told(wrong):
    with pytest.raises(WeftError, match="'s': range: expected two numbers such as"):
        Task("s", "regress", range=wrong)


def test_a_range_belongs_to_numbers():
    with pytest.raises(WeftError, match="a range belongs to regress"):
        Task("s", labels=("a", "b"), range=(0, 5))
