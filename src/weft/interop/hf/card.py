"""The README.md of an exported folder: what it is, code that runs it, and what its answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.encoder.hub_id import hub_id
from weft.interop.hf.forms import CHOICE, QUESTION, SEQUENCE, TOKEN

if TYPE_CHECKING:
    from weft.interop.hf.export import Exported
    from weft.model.model import Model
    from weft.tasks.task import Task

FOLDER = 'folder = "."  # the path of this folder, or its name on the hub\n'
"""The line of a card's code that names the folder that it is in."""

_TEXT = """from transformers import pipeline

{folder}answer = pipeline("text-classification", folder{options})
print(answer({inputs}, truncation=True))
"""

_TAG = """from transformers import pipeline

{folder}tag = pipeline("token-classification", folder, aggregation_strategy="first")
print(tag("a text of several words"))
"""

_SPAN = """import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

{folder}tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForQuestionAnswering.from_pretrained(folder)
question, context = "the question", "the context that holds the answer"
options = {{"truncation": "only_second", "return_offsets_mapping": True, "return_tensors": "pt"}}
inputs = tokenizer(question, context, **options)
offsets = inputs.pop("offset_mapping")[0]
is_context = torch.tensor([part == 1 for part in inputs.sequence_ids(0)])
with torch.no_grad():
    output = model(**inputs)
scores = output.start_logits[0][:, None] + output.end_logits[0][None, :]  # of each (first, last) token
length = len(is_context)
allowed = torch.ones(length, length).triu().tril(29).bool()  # in order, at most 30 tokens
allowed &= is_context[:, None] & is_context[None, :]
first, last = divmod(int(scores.masked_fill(~allowed, -torch.inf).argmax()), length)
print(context[offsets[first, 0] : offsets[last, 1]])
"""

_CHOOSE = """import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

{folder}tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForMultipleChoice.from_pretrained(folder)
text, choices = "the text", ["the first choice", "the second choice"]
inputs = tokenizer([text] * len(choices), choices, padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    output = model(**{{key: value[None] for key, value in inputs.items()}})
print(output.logits.softmax(-1))
"""

_CODE = {SEQUENCE: _TEXT, TOKEN: _TAG, QUESTION: _SPAN, CHOICE: _CHOOSE}


def card(model: Model, task: Task, exported: Exported, has_tokenizer: bool) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        exported: the task as a model of transformers.
        has_tokenizer: whether the folder has a tokenizer.
    """
    kind, method = exported.answering, " with ".join(f"`{part.name}`" for part in model.method.parts)
    lines = [
        *front_matter(model, "transformers", kind.pipeline),
        f"# {task.name}",
        "",
        f"One task of a weft model, exported as {type(exported.model).__name__}: kind `{task.kind}`, method "
        f"{method}, {weights_of(model)}. Neither weft nor code of this folder is needed to "
        "load it.",
        "",
        f"```python\n{_code(task, kind.auto_class)}```",
        "",
        *_meaning(task),
        f"With `truncation=True` texts are cut to {model.max_length} tokens, as in weft "
        "(`model_max_length` of the tokenizer); without it a pipeline may run longer ones.",
    ]
    if not has_tokenizer:
        lines += ["", "The encoder had no tokenizer, so there is none in this folder."]
    if exported.note is not None:
        lines += ["", f"How the head fits into the class: {exported.note}. Meant for inference."]
    if not exported.half:
        lines += [
            "",
            "**Load it in float32 or bfloat16. In float16 its answers are wrong, without a message.**",
        ]
    lines += [
        "",
        f"On random rows its logits differ from weft's by at most {exported.difference:.1g}. `weft.json` "
        "records the encoder, the method and the task.",
    ]
    return "\n".join(lines) + "\n"


def weights_of(model: Model) -> str:
    """Where the method's changes are."""
    return "adapters merged into the encoder" if model.placements else "the encoder's weights as trained"


def front_matter(model: Model, library: str, pipeline: str | None) -> list[str]:
    """The YAML at the top of a model card, which the hub reads.

    Args:
        model: the model.
        library: the library that loads the folder.
        pipeline: the pipeline that answers it, if there is one.
    """
    base = hub_id(model.encoder_source)
    return [
        "---",
        f"library_name: {library}",
        *([f"pipeline_tag: {pipeline}"] if pipeline is not None else []),
        *([f"base_model: {base}"] if base is not None else []),
        "tags:",
        "- weft",
        "---",
        "",
    ]


def _code(task: Task, auto_class: str) -> str:
    """Python that loads the folder and answers one example."""
    names = [f"the {name}" for name in task.texts]
    if task.kind == "rank":
        names = [*names[:1], "a candidate"]
    inputs = repr(names[0]) if len(names) == 1 else f"{{'text': {names[0]!r}, 'text_pair': {names[1]!r}}}"
    several = task.kind == "multilabel" or (task.size or 1) > 1
    return _CODE[auto_class].format(
        folder=FOLDER, inputs=inputs.replace("'", '"'), options=", top_k=None" * several
    )


def _meaning(task: Task) -> list[str]:
    """Sentences on the answers."""
    lines = []
    if task.labels:
        lines.append("The labels, in the order of the logits: " + ", ".join(task.labels) + ".")
    if task.temperature is not None:
        lines.append(
            f"The last layer is divided by the task's temperature, {task.temperature:.6g}, so that "
            "probabilities are calibrated as in weft."
        )
    if task.thresholds:
        pairs = ", ".join(f"{n} {t:.6g}" for n, t in zip(task.labels, task.thresholds, strict=True))
        lines.append(f"A label holds if its probability is above its threshold: {pairs}.")
    if task.kind == "regress":
        lines.append("The output is the answer itself: the task's scale is part of the last layer.")
        if task.range is not None:
            low, high = task.range
            lines.append(f"weft also clips it to {low:g} to {high:g}.")
    if task.kind == "rank":
        lines.append("The output is the score of one (text, candidate): the higher, the better.")
    if task.kind == "tag":
        lines.append(
            "A word has the tag of its first sub-word; weft splits texts into words at white space, "
            "or takes a list of words."
        )
    if task.kind in ("choose", "rank") and len(task.texts) == 2:
        lines.append(
            "A row is the first text, and the second text with the choice in place of @placeholder or, "
            "without one, followed by a space and the choice."
        )
    return [line for text in lines for line in (text, "")]
