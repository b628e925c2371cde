"""The README.md of an exported folder: what it is, code that runs it, and what its answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.interop.cards import (
    FOLDER,
    front_matter,
    labels,
    methods_of,
    paragraphs,
    python,
    rows_of_choices,
    templates,
    thresholds,
    weights_of,
)
from weft.interop.example_code import READ_SPAN, choice_lines, expression, expressions, span_inputs
from weft.interop.hf.forms import CHOICE, QUESTION, TOKEN

if TYPE_CHECKING:
    from weft.interop.hf.classes import Answering
    from weft.interop.hf.export import Exported
    from weft.model.model import Model
    from weft.tasks.task import Task

_CROSS_ENCODER = (
    "`CrossEncoder` of sentence-transformers loads this folder too: its `predict` of pairs (text, candidate) "
    "gives these scores, without a sigmoid."
)


def card(model: Model, task: Task, exported: Exported, has_tokenizer: bool) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        exported: the task as a model of transformers.
        has_tokenizer: whether the folder has a tokenizer.
    """
    kind = exported.answering
    lines = [
        *front_matter(model, "transformers", kind.pipeline),
        f"# {task.name}",
        "",
        f"One task of a weft model, exported as {type(exported.model).__name__}: kind `{task.kind}`, method "
        f"{methods_of(model)}, {weights_of(model)}. Neither weft nor code of this folder is needed to "
        "load it.",
        "",
        *python(*_code(task, kind.auto_class)),
        *paragraphs(_meaning(task)),
        _truncation(kind, model.max_length),
    ]
    if not has_tokenizer:
        lines += ["", "The encoder had no tokenizer, so there is none in this folder."]
    if exported.note is not None:
        lines += ["", f"How the head fits into the class: {exported.note}. Meant for inference."]
    if not exported.half:
        lines += [
            "",
            "**Load it in float32 or bfloat16. In float16, and under autocast to float16, its answers are "
            "wrong, without a message.**",
        ]
    if exported.mean_block:
        lines += [
            "",
            "**Do not quantize its linear layers to int8 (`quantize_dynamic` and the like): the last block "
            "holds numbers that int8 cannot hold, and its answers would be wrong, without a message. For "
            "int8, export the bundle with `weft export BUNDLE --to onnx --set precision=int8 --out PATH`.**",
        ]
    lines += [
        "",
        f"On random rows its logits differ from weft's by at most {exported.difference:.1g}. `weft.json` "
        "records the encoder, the method and the task.",
    ]
    return "\n".join(lines) + "\n"


def _code(task: Task, auto_class: str) -> list[str]:
    """Python that loads the folder and answers one example."""
    if auto_class == TOKEN:
        return _tag(task)
    if auto_class == QUESTION:
        return _span(task)
    if auto_class == CHOICE:
        return _choose(task)
    several = task.kind == "multilabel" or (task.size or 1) > 1
    lines = [
        "from transformers import pipeline",
        "",
        FOLDER,
        f'answer = pipeline("text-classification", folder{", top_k=None" * several})',
    ]
    if task.choices:
        pairs = '[{"text": text, "text_pair": choice} for choice in choices]'
        return [*lines, *choice_lines(task), f"print(answer({pairs}, truncation=True))"]
    texts = expressions(task)
    inputs = texts[0] if len(texts) == 1 else f'{{"text": {texts[0]}, "text_pair": {texts[1]}}}'
    return [*lines, f"print(answer({inputs}, truncation=True))"]


def _tag(task: Task) -> list[str]:
    return [
        "from transformers import pipeline",
        "",
        FOLDER,
        'tag = pipeline("token-classification", folder, aggregation_strategy="first")',
        f"print(tag({expression(task.texts[0], 'a text of several words')}))",
    ]


def _span(task: Task) -> list[str]:
    return [
        "import torch",
        "from transformers import AutoModelForQuestionAnswering, AutoTokenizer",
        "",
        FOLDER,
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        "model = AutoModelForQuestionAnswering.from_pretrained(folder)",
        *span_inputs(task),
        "with torch.no_grad():",
        "    output = model(**inputs)",
        "start, end = output.start_logits[0], output.end_logits[0]",
        *READ_SPAN,
    ]


def _choose(task: Task) -> list[str]:
    return [
        "import torch",
        "from transformers import AutoModelForMultipleChoice, AutoTokenizer",
        "",
        FOLDER,
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        "model = AutoModelForMultipleChoice.from_pretrained(folder)",
        *choice_lines(task),
        'options = {"padding": True, "truncation": True, "return_tensors": "pt"}',
        "inputs = tokenizer([text] * len(choices), choices, **options)",
        "with torch.no_grad():",
        "    output = model(**{key: value[None] for key, value in inputs.items()})",
        "print(output.logits.softmax(-1))",
    ]


def _truncation(kind: Answering, length: int) -> str:
    """How long texts are cut."""
    if kind.auto_class == TOKEN:
        return (
            f"The pipeline cuts texts to {length} tokens (`model_max_length` of the tokenizer), without a "
            "message, and has no option `truncation`. With `stride=N` beside `aggregation_strategy` it reads "
            "longer texts in windows that share N tokens; weft reads them in windows of its own."
        )
    if kind.auto_class == QUESTION:
        return (
            f"The code cuts the context so that the row has {length} tokens (`model_max_length` of the "
            "tokenizer); weft reads a longer one in windows."
        )
    if kind.pipeline is None:
        return f"The code cuts rows to {length} tokens (`model_max_length` of the tokenizer), as weft does."
    return (
        f"With `truncation=True` texts are cut to {length} tokens, as in weft (`model_max_length` of the "
        "tokenizer). Without it longer texts get different answers, or fail if the encoder has no place for "
        "so many tokens."
    )


def _meaning(task: Task) -> list[str]:
    """Sentences on the answers."""
    lines = [*templates(task), *labels(task)]
    if task.temperature is not None:
        lines.append(
            f"The last layer is divided by the task's temperature, {task.temperature:.6g}, so that "
            "probabilities are calibrated as in weft."
        )
    lines += thresholds(task)
    if task.kind == "regress":
        lines.append("The output is the answer itself: the task's scale is part of the last layer.")
        if task.range is not None:
            low, high = task.range
            lines.append(f"weft also clips it to {low:g} to {high:g}.")
    if task.kind == "rank":
        lines.append("The output is the score of one (text, candidate): the higher, the better.")
        lines.append(_CROSS_ENCODER)
    if task.kind == "tag":
        lines.append(
            "A word has the tag of its first sub-word; weft splits texts into words at white space, "
            "or takes a list of words."
        )
    return [*lines, *rows_of_choices(task)]
