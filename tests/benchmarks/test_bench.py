"""The benchmarks measure what they say: turns, operations, claims and tables."""

import threading

import pytest
import torch
from benchmarks.speed.limit import flops
from benchmarks.speed.memory import held_in, kept
from benchmarks.speed.must import judged
from benchmarks.speed.report import body, claims, columns, markdown
from benchmarks.speed.results import Results, Work
from benchmarks.speed.timing import Taken, Variant, interleaved
from benchmarks.speed.turns import Turns
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from weft import load_encoder

CPU = torch.device("cpu")


def test_variants_take_turns_and_are_all_counted_alike():
    ran = []
    variants = [Variant(name, lambda name=name: ran.append(name)) for name in "abc"]
    taken = interleaved(variants, CPU, rounds=4, warm=2, inner=1)
    rounds = [ran[at : at + 3] for at in range(0, len(ran), 3)]
    assert len(rounds) == 6
    assert all(sorted(one) == list("abc") for one in rounds)
    assert {one.rounds for one in taken.values()} == {4}
    assert all(one.low <= one.ms <= one.high for one in taken.values())


def test_past_the_deadline_quartiles_are_there_still():
    taken = interleaved([Variant("a", lambda: None)], CPU, rounds=100, deadline=0.0)
    assert 2 <= taken["a"].rounds <= 3


def test_loops_work_in_turns_and_one_that_fails_stops_no_other():
    turns = Turns(["a", "b"], every=2, device=CPU)
    ran, working = [], threading.Lock()

    def loop(name: str, steps: int) -> None:
        for step in range(steps):
            assert working.acquire(blocking=False)  # nobody else is at work
            ran.append(name)
            working.release()
            turns.step(name, step + 1)
        if name == "a":
            raise ValueError("ended")

    turns.run({"a": lambda: loop("a", 4), "b": lambda: loop("b", 8)})
    assert "".join(ran) == "aabbaabbbbbb"
    assert (len(turns.seconds["a"]), len(turns.seconds["b"])) == (2, 4)
    assert list(turns.failed) == ["a"]


@pytest.mark.parametrize("length", [8, 24])
def test_operations_are_those_that_torch_counts(length):
    encoder = load_encoder("random:bert-tiny").model
    encoder.set_attn_implementation("eager")  # sdpa's kernel for CPUs is not counted
    encoder.pooler = None
    ids = torch.ones(3, length, dtype=torch.long)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        encoder(ids)
    assert forward.get_total_flops() == flops(encoder, 3, length)
    with FlopCounterMode(display=False) as both:
        encoder(ids).last_hidden_state.sum().backward()
    assert both.get_total_flops() == flops(encoder, 3, length, backward=True, trained=1.0)


def test_memory_is_the_most_that_is_held_at_a_time():
    x = torch.zeros(1000)

    def run() -> torch.Tensor:
        y = x + 1  # 4000 bytes
        z = y + 1  # 4000 more
        del y
        return z + 1  # in the place of the first

    assert 8000 <= held_in(run) < 9000
    linear = nn.Linear(10, 10)
    assert kept((linear, linear)) == 4 * 110


def results() -> Results:
    found = Results({"device": "cpu"}, {})
    work = Work("inference", "inference 36x32", "bare encoder", "cost")
    times = {"bare encoder": 10.0, "weft lora, 9 tasks": 11.0, "peft lora, adapter_names, 9 tasks": 10.5}
    variants = [Variant(name, lambda: None) for name in times]
    work.add(variants, {name: Taken(ms, ms - 1, ms + 1, 5) for name, ms in times.items()}, 4.0)
    found.works.append(work)
    found.must = judged(found)
    return found


def test_claims_are_ratios_within_one_piece_of_work():
    beside_bare, beside_names, text, *serving = results().must
    assert beside_bare["ok"] is True
    assert beside_bare["found"] == pytest.approx(1.1)
    assert beside_names["ok"] is False
    assert all(claim["ok"] is None for claim in (text, *serving))


def test_what_is_written_is_read_and_shown(tmp_path):
    found = results()
    found.write(tmp_path / "bench-cpu.json")
    again = Results.read(tmp_path / "bench-cpu.json")
    assert again == found
    table = markdown(columns(again.works[0]), body(again.works[0]))
    assert "| weft lora, 9 tasks | 11.0 (10.0 to 12.0) | 1.10x |  |" in table
    assert "| arithmetic limit | 4.00 | 0.40x |  |" in table
    assert [cells[-1] for cells in claims(again)][:3] == ["yes", "NO", "not measured"]


def test_plots_are_drawn_of_what_was_measured(tmp_path):
    from benchmarks.speed.plots import draw

    (picture,) = draw(results(), tmp_path)
    assert "weft lora, 9 tasks" in picture.read_text(encoding="utf-8")
