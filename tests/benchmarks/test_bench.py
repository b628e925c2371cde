"""The benchmarks measure what they say: turns, operations, claims and tables."""

import threading

import pytest
import torch
from benchmarks.speed import inference
from benchmarks.speed.__main__ import arguments
from benchmarks.speed.bench import Bench
from benchmarks.speed.inference import BARE
from benchmarks.speed.limit import flops
from benchmarks.speed.memory import held_in, kept
from benchmarks.speed.must import MUST, judged
from benchmarks.speed.report import body, claims, columns, markdown
from benchmarks.speed.results import Results, Work
from benchmarks.speed.timing import Taken, Variant, interleaved
from benchmarks.speed.training import named
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


@pytest.mark.parametrize("tasks", [9, 64])
@pytest.mark.parametrize(
    ("method", "target"),
    [(m, 1.1) for m in ("road", "ia3", "vera")]
    + [(m, 1.15) for m in ("dora", "mtl_lora", "poly")]
    + [(m, 1.2) for m in ("reft", "hyperformer")],
)
def test_methods_have_a_limit_beside_the_bare_encoder(method, target, tasks):
    found = Results({"device": "cuda"}, {})
    work = Work("inference", "inference 288x64", BARE, "cost")
    row = named(method, tasks)
    for factor, ok in ((0.99, True), (1.01, False)):
        times = {BARE: 10.0, row: 10.0 * target * factor}
        variants = [Variant(name, lambda: None) for name in times]
        work.rows.clear()
        work.add(variants, {name: Taken(ms, ms, ms, 5) for name, ms in times.items()}, None)
        found.works[:] = [work]
        (claim,) = [one for one in judged(found) if one["claim"].startswith(f"{row} mixed")]
        assert claim["ok"] is ok
        assert claim["target"] == f"≤ {target:g}x"


def test_methods_with_a_limit_are_measured_with_every_number_of_tasks(monkeypatch, tmp_path):
    """`--only inference --methods … --tasks 9 64` builds what the claims read, under their names."""
    names = ("dora", "mtl_lora", "poly", "hydra", "road", "ia3", "vera", "lora_xs", "reft", "hyperformer")
    line = ["bench", "--device", "cpu", "--only", "inference", "--tasks", "9", "64"]
    monkeypatch.setattr("sys.argv", [*line, "--methods", ",".join(names)])
    args = arguments()
    assert args.methods == list(names)
    built = []

    class Untimed(Bench):
        def build(self, variants, name, make, needed=False):
            if name.startswith("weft "):
                make().run()
                built.append(name)

        def measure(self, *facts, **options):
            pass

    bench = Untimed(CPU, Results({}, {}), tmp_path / "none", 1, True, None)
    inference.measure(bench, "random:bert-tiny", 6, 8, args.tasks, args.methods)
    assert sorted(built) == sorted(named(method, tasks) for method in names for tasks in (9, 64))
    claimed = {must.over for must in MUST if must.work == "inference 288x64"}
    assert {named(m, n) for m in names if m not in ("hydra", "lora_xs") for n in (9, 64)} <= claimed


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
