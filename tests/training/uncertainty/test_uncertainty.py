"""MT-Uncertainty: measures of a mixed batch, the choice, and proxies; step by step against CA-MTL's code."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.golden import read_golden
from tests.support.tiny import build, scramble
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.core.layout import Layout
from weft.data.batching.collate import collate
from weft.errors import WeftError
from weft.model.output import Output
from weft.sampling.plan.candidates import CandidateSteps
from weft.sampling.plan.orders import Orders
from weft.sampling.samplers.mt_uncertainty import MtUncertainty
from weft.tasks.kinds import KINDS
from weft.training.uncertainty import Chooser, choose, measures, proxies, scores

NAN = math.nan
PAIR = ("a", "b")


# the authors' sixteen steps


class InOrder(Orders):
    """Examples as they stand in the file, in every epoch."""

    def examples(self, task, epoch, place):
        return np.asarray(place)


class Golden:
    """Their run on a table of fixed logits, four tasks, in sequential order."""

    def __init__(self) -> None:
        self.said, part = read_golden("ca_mtl", "mt_uncertainty")
        self.table, self.first = part("")["logits_table"], part("")["task_offsets"].tolist()
        classes = self.said["num_classes"]
        names = self.said["tasks"]
        self.tasks = [
            weft.Task(n, "regress") if c == 1 else weft.Task(n, size=c)
            for n, c in zip(names, classes, strict=True)
        ]
        self.proxy = {names.index("sts-b"): names.index("mrpc")}

    def candidates(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Weft's own candidates, in sequential order: the ids in the table, and the task of each."""
        orders = InOrder(np.array(self.said["dataset_sizes"]), 0)
        task, index = CandidateSteps(orders, self.said["batch_size"], None, 0, ()).examples(step)
        return np.array(self.first)[task] + index, task

    def output(self, ids: np.ndarray, task: np.ndarray) -> tuple[Any, Output]:
        """What the model of the table gives for these candidates."""
        model = SimpleNamespace(tasks=self.tasks)
        by_shape = {t.head: self.table[ids][:, : t.size] for t in self.tasks}
        layout = Layout(None, len(ids))
        heads = tuple(t.head for t in self.tasks)
        nothing = torch.zeros(0)
        answers_by = dict.fromkeys(by_shape, "example")
        return model, Output(nothing, nothing, None, by_shape, torch.tensor(task), heads, layout, answers_by)


@pytest.fixture(scope="module")
def authors() -> Golden:
    return Golden()


@pytest.mark.parametrize("number", range(16))
def test_a_step_is_that_of_the_authors_code(authors, number):
    step = authors.said["steps"][number]
    ids, task = authors.candidates(number)
    assert ids.tolist() == step["candidates"]
    assert task.tolist() == step["task_id"]

    model, output = authors.output(ids, task)
    measure = measures(model, output, "entropy")
    assert measure.dtype == torch.float64
    told = np.array(step["norm_entropy"])
    without = np.isin(task, list(authors.proxy))
    assert measure[without].isnan().all()
    assert not told[without].any()
    np.testing.assert_allclose(measure[~without], told[~without], atol=1e-5)

    found = scores(measure.numpy(), task, "code", authors.proxy)
    np.testing.assert_allclose(found, step["score"], atol=1e-5)
    places = choose(measure.numpy(), task, 4, "code", authors.proxy)
    assert_chosen(ids, task, found, places, step["selected_sample_ids"], step["selected_task_ids"])

    # the printed formula knows no proxies: there sts-b has the score 0
    by_paper = scores(measure.numpy(), task, "paper", {})
    wanted = step["selection_if_paper_formula"]
    places = choose(measure.numpy(), task, 4, "paper", {})
    assert_chosen(ids, task, by_paper, places, wanted, task[np.searchsorted(ids, wanted)])


def assert_chosen(ids: Any, task: Any, score: Any, places: Any, wanted: list[int], tasks: Any) -> None:
    """The same ids in the same order, but for equal scores: there topk may have taken either."""
    theirs = np.searchsorted(ids, wanted)
    np.testing.assert_allclose(score[places], score[theirs], atol=1e-12)
    alone = [np.count_nonzero(np.isclose(score, score[p], atol=1e-12)) == 1 for p in places]
    assert ids[places][alone].tolist() == np.array(wanted)[alone].tolist()
    assert task[places][alone].tolist() == np.array(tasks)[alone].tolist()
    for p, q, one in zip(places, theirs, alone, strict=True):
        assert one or p <= q or p in theirs  # of equals ours is the first


def test_the_authors_ties_are_few(authors):
    """So that the test above means something: of 64 choices all but these are the same id."""
    odd = []
    for number, step in enumerate(authors.said["steps"]):
        ids, task = authors.candidates(number)
        measure = measures(*authors.output(ids, task), "entropy").numpy()
        found = ids[choose(measure, task, 4, "code", authors.proxy)].tolist()
        pairs = zip(found, step["selected_sample_ids"], strict=True)
        odd += [(number, ours, theirs) for ours, theirs in pairs if ours != theirs]
    # 25 and 29 of sts-b, with the score of 38 of mrpc; topk takes now the one, now the other
    assert odd == [(1, 29, 38), (9, 25, 38), (13, 29, 38)]


# the choice


@st.composite
def candidates(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Measures and tasks of some candidates, in the order of the tasks; a task may have no measure."""
    measure, task = [], []
    for t in range(draw(st.integers(1, 5))):
        count = draw(st.integers(0 if t else 1, 5))
        unknown = draw(st.booleans())
        grid = st.integers(0, 8).map(lambda k: k / 8)  # ties are common
        measure += [NAN] * count if unknown else draw(st.lists(grid, min_size=count, max_size=count))
        task += [t] * count
    return np.array(measure), np.array(task)


@given(candidates(), st.integers(1, 12), st.sampled_from(["code", "paper"]))
def test_the_highest_scores_are_taken_and_of_equals_the_first(given_, size, rule):
    measure, task = given_
    found = choose(measure, task, size, rule, {}).tolist()
    assert len(set(found)) == len(found) == min(size, len(task))
    if np.isfinite(measure).any():
        score = scores(measure, task, rule, {})
        assert found == sorted(range(len(task)), key=lambda p: (-score[p], p))[:size]
        assert (score[np.isnan(measure)] == 0).all()


@given(candidates())
def test_the_rules_are_as_they_are_written(given_):
    measure, task = given_
    known = np.isfinite(measure)
    means = {t: measure[known & (task == t)].mean() for t in set(task[known].tolist())}
    highest = max(means.values(), default=0)
    for place in np.flatnonzero(known):
        paper = measure[place] / highest if highest else 0.0
        assert scores(measure, task, "paper", {})[place] == pytest.approx(paper)
        code = paper * means[int(task[place])]
        assert scores(measure, task, "code", {})[place] == pytest.approx(code)


@given(candidates(), st.integers(1, 12))
def test_the_papers_divisor_changes_no_order(given_, size):
    measure, task = given_
    if np.isfinite(measure).any():
        by_measure = np.argsort(-np.nan_to_num(measure), kind="stable")[:size]
        assert choose(measure, task, size, "paper", {}).tolist() == by_measure.tolist()


@pytest.mark.parametrize("rule", ["code", "paper"])
def test_a_proxys_scores_are_taken_position_by_position(rule):
    """What the task knows of itself counts for nothing: not even for the largest mean."""
    task = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    measure = np.array([1.0, 1.0, 1.0, 0.5, 0.25, NAN, NAN, NAN])
    found = scores(measure, task, rule, {0: 1, 2: 1})
    expected = [0.5, 0.25] if rule == "code" else [0.5 / 0.375, 0.25 / 0.375]
    np.testing.assert_allclose(found, [*expected, 0, *expected, *expected, 0])
    assert choose(measure, task, 4, rule, {0: 1, 2: 1}).tolist() == [0, 3, 5, 1]


def test_where_nothing_can_be_measured_tasks_take_turns():
    task = np.array([0, 0, 0, 1, 2, 2])
    assert choose(np.full(6, NAN), task, 5, "code", {}).tolist() == [0, 3, 4, 1, 5]
    sure = choose(np.zeros(6), task, 2, "code", {})
    assert sure.tolist() == [0, 1]  # sure of everything: the scores are equal


def test_mistakes_are_told():
    with pytest.raises(WeftError, match="rule 'cod' does not exist; did you mean 'code'"):
        choose(np.zeros(2), np.zeros(2, int), 1, "cod", {})
    with pytest.raises(WeftError, match="one candidate or more"):
        choose(np.zeros(0), np.zeros(0, int), 1, "code", {})


# measures of any mix of kinds


@pytest.fixture(scope="module")
def every_kind() -> tuple[Any, list[Any]]:
    tasks = [task_of_kind(name, 3) for name in NAMES]
    model = scramble(build("bert", "lora", tasks))
    tokenizer = tiny_tokenizer("wordpiece")
    return model, [tokens_of(task, tokenizer) for task in tasks]


def run(model: Any, items: list[tuple[int, Any, int]]) -> tuple[Output, dict[str, Any]]:
    inputs = collate([(tokens, i) for _, tokens, i in items], model.pad_id)
    inputs["input_ids"] = inputs["input_ids"] % 90 + 5
    task = torch.tensor([t for t, _, _ in items])
    example = inputs.get("example")
    labels = model.collate_labels(
        [tokens.target(i) for _, tokens, i in items], task, example, inputs["input_ids"].size(1)
    )
    inputs["task"] = task if example is None else task[example]
    with torch.no_grad():
        return model(**inputs), labels


@pytest.mark.parametrize("measure", ["entropy", "margin"])
def test_a_batch_of_every_kind_is_measured_as_each_example_alone(every_kind, measure):
    model, tokens = every_kind
    items = [(t, own, i) for i in range(3) for t, own in enumerate(tokens)]
    output, labels = run(model, items)
    found = measures(model, output, measure, labels)
    assert (found.shape, found.dtype) == ((len(items),), torch.float64)
    for (t, own, i), value in zip(items, found.tolist(), strict=True):
        by_itself, targets = run(model, [(t, own, i)])
        alone = measures(model, by_itself, measure, targets).item()
        assert math.isnan(value) == math.isnan(alone) == (not KINDS[model.tasks[t].kind].has_uncertainty)
        if not math.isnan(value):
            assert 0 <= value <= 1
            assert value == pytest.approx(alone, abs=1e-5)
    assert len({round(x, 4) for x in found.tolist() if not math.isnan(x)}) > 20


# proxies

GLUE = {
    "cola": 8551, "mnli": 392702, "rte": 2490, "wnli": 635, "qqp": 363846,
    "stsb": 5749, "sst2": 67349, "qnli": 104743, "mrpc": 3668,
}  # fmt: skip


def glue() -> list[weft.Task]:
    one = {"cola", "sst2"}
    return [
        weft.Task("stsb", "regress", texts=PAIR)
        if name == "stsb"
        else weft.Task(name, size=3 if name == "mnli" else 2, texts=("a",) if name in one else PAIR)
        for name in GLUE
    ]


def named(tasks: list[weft.Task], sizes: list[int], proxy: dict[str, str] | None = None) -> dict[str, str]:
    found = proxies(tasks, sizes, MtUncertainty(proxy=proxy or {}))
    return {tasks[i].name: tasks[j].name for i, j in found.items()}


def test_in_glue_stsb_takes_mrpcs_scores_as_the_authors_have_it():
    assert named(glue(), list(GLUE.values())) == {"stsb": "mrpc"}
    # given ones go before, and a task that has a proxy is nobody's
    assert named(glue(), list(GLUE.values()), {"stsb": "rte"}) == {"stsb": "rte"}
    assert named(glue(), list(GLUE.values()), {"mrpc": "qqp"}) == {"mrpc": "qqp", "stsb": "rte"}


def test_the_nearest_in_size_of_those_that_read_as_many_texts():
    tasks = [
        weft.Task("x", "regress", texts=("a",)),
        weft.Task("small", size=2, texts=("a",)),
        weft.Task("large", size=2, texts=("a",)),
        weft.Task("pair", size=2, texts=PAIR),
        weft.Task("y", "similarity", texts=PAIR, range=(0, 5)),
        weft.Task("z", "span", texts=PAIR),
    ]
    # 100 is as far from 10 as from 1000; both of them read one text
    assert named(tasks, [100, 10, 1000, 100, 8, 9]) == {"x": "small", "y": "z"}
    assert named(tasks, [101, 10, 1000, 100, 8, 9])["x"] == "large"
    # where none reads as many, any does
    assert named([tasks[0], tasks[3], tasks[5]], [100, 10, 90]) == {"x": "z"}
    assert named(tasks[1:4], [10, 1000, 100]) == {}


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ({"stbs": "mrpc"}, "train.sampler.proxy: task 'stbs' does not train here; did you mean 'stsb'?"),
        ({"stsb": "mrcp"}, "train.sampler.proxy: task 'mrcp' does not train here; did you mean 'mrpc'?"),
        ({"mrpc": "stsb"}, "mrpc: stsb, which has no measure of its own; expected one of cola, mnli, rte"),
        ({"stsb": "stsb"}, "stsb: stsb, which is the task itself; expected one of cola"),
        ({"stsb": "mrpc", "mrpc": "rte"}, "stsb: mrpc, which has a proxy itself; expected one of cola"),
    ],
)
def test_a_proxy_that_cannot_be_one_is_told(proxy, message):
    with pytest.raises(WeftError) as told:
        proxies(glue(), list(GLUE.values()), MtUncertainty(proxy=proxy))
    assert message in str(told.value)


def test_where_no_task_has_a_measure_the_way_out_is_told():
    with pytest.raises(WeftError, match=r"task 'x' \(regress\) has no measure .*\n.*train.sampler=uniform"):
        proxies([weft.Task("x", "regress")], [5], MtUncertainty())


# in a run


def chooser(sizes: list[int], **given_: Any) -> Chooser:
    tasks = [
        weft.Task("s", "regress", texts=PAIR),
        weft.Task("m", size=2, texts=PAIR),
        weft.Task("r", size=2, texts=PAIR),
        weft.Task("u", "regress", texts=PAIR),
    ]
    model: Any = SimpleNamespace(tasks=[weft.Task("other", size=2), *tasks])
    return Chooser(model, ["s", "m", "r", "u"], [1, 2, 3, 4], sizes, MtUncertainty(**given_))


def test_once_a_proxy_has_stopped_the_nearest_of_the_others_stands_in():
    one = chooser([10, 11, 100, 12], proxy={"m": "r"})
    assert one.told == {"s": "r", "m": "r", "u": "r"}
    one = chooser([10, 11, 100, 12], rule="paper")
    assert one.told == {"s": "m", "u": "m"}
    measure = torch.tensor([NAN, NAN, 0.1, 0.9, 0.5, 0.4], dtype=torch.float64)
    assert one.places(measure, np.array([0, 0, 1, 1, 2, 2]), 3).tolist() == [1, 3, 4]
    without = one.places(measure[[0, 1, 4, 5]], np.array([0, 0, 2, 2]), 3)
    assert without.tolist() == [0, 2, 1]
    # with every measured task stopped, tasks take turns
    assert one.places(measure[[0, 1, 0, 1]], np.array([0, 0, 3, 3]), 3).tolist() == [0, 2, 1]


def test_a_stopped_proxy_leaves_a_task_its_own_measure():
    one = chooser([10, 11, 100, 12], proxy={"m": "r"}, rule="paper")
    measure = np.array([NAN, 0.2, 0.8])
    assert one.places(measure, np.array([0, 1, 1]), 3).tolist() == [2, 0, 1]
