"""Claims about speed, as ratios of variants that took turns in one loop."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.speed.exported import FLOAT32, INT8, PASSES, SINGLE, TORCH
from benchmarks.speed.inference import BARE, NAMES
from benchmarks.speed.results import Results, Work
from benchmarks.speed.training import BASIS, named


class Must(NamedTuple):
    """One claim.

    Attributes:
        claim: in words.
        device: `cuda` or `cpu`.
        work: the piece of work it is read from; or a further run of it, named "WORK, …".
        over: the variant above the line.
        under: the variant below it.
        least: the ratio is at least `target`; else at most.
        target: what was set.
    """

    claim: str
    device: str
    work: str
    over: str
    under: str
    least: bool
    target: float


def _training(method: str, tasks: int, length: int, target: float) -> Must:
    row = named(method, tasks, "graph")
    claim = f"{row}, training 32x{length} beside PEFT's eager LoRA"
    return Must(claim, "cuda", f"training 32x{length}", BASIS, row, True, target)


def _mixed(method: str, target: float, tasks: int = 9) -> Must:
    row = named(method, tasks)
    claim = f"{row} mixed, inference 288x64 beside the bare encoder"
    return Must(claim, "cuda", "inference 288x64", row, BARE, False, target)


def _more_tasks(method: str) -> Must:
    claim = f"weft {method}, 64 tasks beside 9, inference 288x64"
    return Must(claim, "cuda", "inference 288x64", named(method, 64), named(method, 9), False, 1.15)


_LIMITS = {
    **dict.fromkeys(("road", "ia3", "vera"), 1.1),
    **dict.fromkeys(("dora", "mtl_lora", "poly"), 1.15),
    **dict.fromkeys(("reft", "hyperformer"), 1.2),
}
"""How much more than the bare encoder a method may cost, with nine and with 64 tasks mixed."""

_TEXT = ("training on text", "peft lora, Trainer", "weft lora", True)

_SERVE = "weft serve"


def _served(work: str, beside: str, target: float, least: bool = True) -> Must:
    """A claim about serving on a CPU: texts per second at least so many times, or a cost at most."""
    rows = (beside, _SERVE) if least else (_SERVE, beside)
    return Must(f"{work}: {_SERVE} beside {beside}", "cpu", work, *rows, least, target)


MUST = [
    _training("lora", 1, 128, 7),
    _training("lora", 1, 32, 12),
    _training("lora", 9, 128, 7),
    _training("lora", 9, 32, 12),
    _training("morris", 9, 128, 7),
    Must("training on GLUE text from end to end beside PEFT's Trainer", "cuda", *_TEXT, 8),
    _mixed("lora", 1.15),
    _mixed("bitfit", 1.15),
    _mixed("morris", 1.15),
    _mixed("pals", 1.6),
    _mixed("ca_mtl", 1.4),
    _more_tasks("lora"),
    _more_tasks("bitfit"),
    *(_mixed(method, target, tasks) for method, target in _LIMITS.items() for tasks in (9, 64)),
    Must(
        "weft lora, 9 tasks mixed, inference 36x32 beside the bare encoder",
        *("cpu", "inference 36x32", named("lora", 9), BARE, False, 1.12),
    ),
    Must(
        "weft lora, 9 tasks mixed, inference 36x32 beside PEFT's adapter_names",
        *("cpu", "inference 36x32", named("lora", 9), f"{NAMES}, 9 tasks", False, 1.0),
    ),
    Must("training on GLUE text beside PEFT under Trainer's defaults", "cpu", *_TEXT, 1.3),
    _served("serving, 32 texts per request", "offline model.predict", 0.9),
    _served("serving, single texts", "offline model.predict", 0.75),
    _served("serving, single texts", "one pipeline per task", 1.5),
    _served("serving, resident memory (MB)", "one pipeline per task", 0.5, least=False),
    _served("serving, weights (MB)", "one pipeline per task", 0.125, least=False),
    _served("serving, single texts", "LitServe with weft", 1.2),
    _served("serving, p99 at 70% load", "LitServe with weft", 0.8, least=False),
    Must(
        "serving, one text: all tasks beside one, heads only",
        *("cpu", "serving, one text, heads only", "all tasks", "one task", False, 1.15),
    ),
    Must(
        "an ONNX graph of lora, 9 tasks, float32 beside torch, passes on GLUE text",
        *("cpu", PASSES, TORCH, FLOAT32, True, 1.3),
    ),
    Must(
        "an ONNX graph of lora, 9 tasks, float32 beside torch, one GLUE text per pass",
        *("cpu", SINGLE, TORCH, FLOAT32, True, 1.3),
    ),
    Must(
        "an ONNX graph of lora, 9 tasks, int8 beside torch, passes on GLUE text",
        *("cpu", PASSES, TORCH, INT8, True, 2.0),
    ),
]


def judged(results: Results) -> list[dict[str, Any]]:
    """Each claim for this device with its target and the measured ratio; `ok` is None if it was not measured.

    Text that is not GLUE's shows nothing about GLUE's.
    """
    found = []
    for must in MUST:
        if must.device != results.machine["device"]:
            continue
        ratio = next((ratio for work in results.works if (ratio := _ratio(must, work)) is not None), None)
        ok = None if ratio is None else ratio >= must.target if must.least else ratio <= must.target
        target = f"{'≥' if must.least else '≤'} {must.target:g}x"
        found.append({"claim": must.claim, "target": target, "found": ratio, "ok": ok})
    return found


def _ratio(must: Must, work: Work) -> float | None:
    """The ratio of a claim by one piece of work; None if it is of other work, or lacks a row."""
    if work.name != must.work and not work.name.startswith(f"{must.work}, "):
        return None
    if "GLUE" in must.claim and work.facts.get("text") != "GLUE":
        return None
    over, under = work.ms(must.over), work.ms(must.under)
    return None if over is None or under is None else over / under
