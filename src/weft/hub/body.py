"""The body of a model card, in Markdown.

Labels, task names and settings come from data. Every such text goes through `shown`, which leaves no
character of it with a meaning in Markdown or HTML, or into an indented block of code.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from weft.bundle.manifest import FORMAT
from weft.evaluation.run_metrics import VALIDATION
from weft.hub.run_text import as_yaml
from weft.inference.predict import plain_form
from weft.serving.questions.sample_requests import sample_request
from weft.tasks.kinds import KINDS
from weft.utils.markdown import shown, table
from weft.utils.terminal import escaped

if TYPE_CHECKING:
    from weft.hub.facts import CardFacts
    from weft.tasks.task import Task

MOST_LABELS = 30
"""How many labels of a task are listed."""


def body(facts: CardFacts) -> str:
    """Return the Markdown below the header.

    Args:
        facts: what is known about the model.
    """
    parts = [
        f"# {shown(facts.title)}",
        _summary(facts),
        "## Tasks",
        _tasks(facts),
        "## How to use it",
        _usage(facts),
        "## Metrics",
        _metrics(facts),
        "## Parameters",
        _block(str(facts.ledger), "text"),
        "## Training",
        _training(facts),
        "## Licenses, and data that the encoder has seen",
        _licenses(facts),
    ]
    return "\n\n".join(part for part in parts if part)


def _summary(facts: CardFacts) -> str:
    count = len(facts.tasks)
    tasks = "one task" if count == 1 else f"{count} tasks"
    encoder = shown(facts.encoder.name)
    if facts.encoder.hub_id is not None:
        encoder = f"[{shown(facts.encoder.hub_id)}](https://huggingface.co/{facts.encoder.hub_id})"
    if facts.encoder.changed is not None:
        encoder += f" ({facts.encoder.changed})"
    where = "is included" if facts.encoder.included else "is not included and is loaded beside it"
    if facts.encoder.get is not None and not facts.encoder.included:
        where += f"; to get it: `{facts.encoder.get}`"
    trained = "its weights were trained too" if facts.trains_encoder else "its weights were not changed"
    return (
        f"This is a model for {tasks}, trained with weft by the method `{facts.method}` on the encoder "
        f"{encoder}: {trained}. The encoder {where}. One file holds what the tasks share, and one file per "
        f"task the rest (format {FORMAT}), so that a task can be loaded alone."
    )


def _tasks(facts: CardFacts) -> str:
    rows = [
        [f"`{name}`", f"`{task.kind}`", shown(" + ".join(task.texts)), _labels(task)]
        for name, task in facts.tasks.items()
    ]
    listed = table(["task", "kind", "texts", "labels"], rows)
    requests = "\n".join(json.dumps(sample_request(task), ensure_ascii=True) for task in facts.tasks.values())
    notes = [
        f"`{name}`: its thresholds were tuned on the split `{task.tuned_on}`."
        for name, task in facts.tasks.items()
        if task.tuned_on
    ] + [
        f"`{name}`: its probabilities were calibrated on the split `{task.calibrated_on}`."
        for name, task in facts.tasks.items()
        if task.calibrated_on
    ]
    examples = "An example request of each task, as `weft serve` and `weft predict` read it:"
    return "\n\n".join([listed, *notes, examples, _block(requests, "json")])


def _labels(task: Task) -> str:
    if task.labels:
        listed = ", ".join(shown(label) for label in task.labels[:MOST_LABELS])
        more = len(task.labels) - MOST_LABELS
        return listed if more <= 0 else f"{listed}, … ({len(task.labels)} in all)"
    if task.range is not None:
        return f"a number from {task.range[0]:g} to {task.range[1]:g}"
    return "a number" if KINDS[task.kind].has_range else ""


def _usage(facts: CardFacts) -> str:
    first = next(iter(facts.tasks.values()))
    request = sample_request(first)
    inputs = plain_form(first, {key: value for key, value in request.items() if key != "task"})
    texts = [request[key] for key in ("text", "text_a", "text_b") if key in request]
    plain = len(request) == len(texts) + 1  # no choices, no marked words
    python = [
        "import weft",
        "",
        f"model = weft.load({facts.load!r})",
        f"model.predict([({first.name!r}, {inputs!r})])",
        "",
        f"model = weft.load({facts.load!r}, tasks=[{first.name!r}])  # one task: only its files are fetched",
    ]
    command = f"weft predict {facts.load} --task {first.name}"
    if plain:
        command += f" --text {shlex.quote(texts[0])}"
        command += f" --text2 {shlex.quote(texts[1])}" if len(texts) == 2 else ""
    else:
        command = f"weft predict {facts.load} requests.jsonl"
    lines = [command, f"weft serve {facts.load}"]
    return "\n\n".join(
        [
            "In Python, with weft installed:",
            _block("\n".join(python), "python"),
            "On the command line:",
            _block("\n".join(lines), "bash"),
        ]
    )


def _metrics(facts: CardFacts) -> str:
    if not facts.metrics:
        return "No metrics are known: the bundle was published without the folder of its training run."
    rows = []
    for split, metrics in facts.metrics.items():
        for name in facts.tasks:
            for metric, value in metrics.tasks.get(name, {}).items():
                count = metrics.rows.get(name)
                rows.append(
                    [f"`{name}`", split, shown(metric), f"{value:.4f}", "" if count is None else f"{count:,}"]
                )
    parts = [table(["task", "split", "metric", "value", "examples"], rows, right=(3, 4))]
    if VALIDATION in facts.metrics:
        parts.append(
            "The weights were chosen on the validation split, so its values are slightly too good. The "
            "training run wrote them when it ended; nobody else has verified them."
        )
    if missing := [name for name in facts.tasks if not any(name in m.tasks for m in facts.metrics.values())]:
        parts.append("Not evaluated: " + ", ".join(f"`{name}`" for name in missing) + ".")
    return "\n\n".join(parts)


def _training(facts: CardFacts) -> str:
    if facts.run is None:
        return "The run file of the training is not known."
    return "\n\n".join(
        [
            "The run file, with file names instead of paths:",
            "<details><summary>run.yaml</summary>",
            _block(as_yaml(facts.run).rstrip(), "yaml"),
            "</details>",
        ]
    )


def _licenses(facts: CardFacts) -> str:
    encoder, name = facts.encoder, shown(facts.encoder.name)
    own = (
        f"The license of this model: {shown(facts.license)}."
        if facts.license
        else ("The author of this model has named no license for it.")
    )
    if encoder.random:
        return (
            f"{own}\n\nThe encoder {name} had random weights before the training: it has seen no other data."
        )
    of_encoder = f"The encoder {name} has the license `{encoder.license}`."
    if encoder.license is None:
        of_encoder = f"The license of the encoder {name} is not known to weft; look at its own card."
    seen = f"The encoder was trained on {encoder.trained_on}."
    if encoder.trained_on is None:
        seen = (
            f"Which texts the encoder {name} was trained on is not known to weft. If test data of these "
            "tasks was among them, the metrics above are too good."
        )
    return "\n\n".join([own, of_encoder, seen])


def _block(text: str, language: str) -> str:
    """A block of code; its fence is longer than any in the text."""
    text = "\n".join(escaped(row) for row in text.split("\n"))
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
