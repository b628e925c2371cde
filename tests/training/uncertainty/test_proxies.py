"""Tasks without a measure take the scores of another task: which one, and what happens when it stops."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import weft
from weft.errors import WeftError
from weft.sampling.samplers.mt_uncertainty import MtUncertainty
from weft.training.uncertainty import Chooser, proxies

NAN = math.nan
PAIR = ("a", "b")
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
        ({"mrpc": "stsb"}, "mrpc: stsb, which has no uncertainty measure; expected one of cola, mnli, rte"),
        ({"stsb": "stsb"}, "stsb: stsb, which is the task itself; expected one of cola"),
        ({"stsb": "mrpc", "mrpc": "rte"}, "stsb: mrpc, which has a proxy itself; expected one of cola"),
    ],
)
def test_a_proxy_that_cannot_be_one_is_told(proxy, message):
    with pytest.raises(WeftError) as told:
        proxies(glue(), list(GLUE.values()), MtUncertainty(proxy=proxy))
    assert message in str(told.value)


def test_where_no_task_has_a_measure_the_way_out_is_told():
    message = r"task 'x' \(regress\) has no uncertainty measure, .*\n.*train.sampler=uniform"
    with pytest.raises(WeftError, match=message):
        proxies([weft.Task("x", "regress")], [5], MtUncertainty())


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
    assert one.proxy_names == {"s": "r", "m": "r", "u": "r"}
    one = chooser([10, 11, 100, 12], rule="paper")
    assert one.proxy_names == {"s": "m", "u": "m"}
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
