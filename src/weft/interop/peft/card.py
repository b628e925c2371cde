"""The README of an exported folder, with code that loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.data.tokens.backends import backends_of
from weft.errors import WeftError
from weft.interop.cards import (
    front_matter,
    labels,
    methods_of,
    paragraphs,
    python,
    rows_of_choices,
    templates,
    thresholds,
)
from weft.interop.example_code import (
    ANSWERS,
    READ_SPAN,
    choice_lines,
    expression,
    expressions,
    literal,
    span_inputs,
)
from weft.interop.hf.classes import ANSWERING
from weft.interop.peft.format import SEQ_CLS
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

_LOGITS = 'head["weight"].T + head["bias"]'

_POOL = {
    "pooler": ["pooled = output.pooler_output"],
    "cls": ["pooled = output.last_hidden_state[:, 0]"],
    "mean": [
        'mask = inputs["attention_mask"][..., None]',
        "pooled = (output.last_hidden_state * mask).sum(1) / mask.sum(1)",
    ],
}


def card(model: Model, task: Task, config: dict[str, Any], base: str | None) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        config: the contents of adapter_config.json.
        base: the hub id of the encoder; None if its name is that of a folder of some machine.
    """
    name = config["base_model_name_or_path"]
    pipeline = ANSWERING[task.kind].pipeline if task.kind in ANSWERING else None
    lines = [
        *front_matter(model, "peft", pipeline, base),
        f"# {task.name}",
        "",
        f"One task of a weft model (kind `{task.kind}`, method {methods_of(model)}), exported as a LoRA for "
        "PEFT.",
        "",
        *python(*(_own_head if config["task_type"] == SEQ_CLS else _head_file)(model, task, name)),
        *paragraphs(_unknown(name) if base is None else [], _meaning(model, task)),
        "`weft.json` holds the task's settings; `weft import FOLDER --out BUNDLE` makes a weft model of it.",
    ]
    if config["lora_bias"] and _lacks_bias(model, config):
        lines += [
            "",
            "It adds biases to linear maps that have none. PEFT runs them, but its `merge_and_unload` "
            "refuses them; "
            f"weft can: `weft.load(BUNDLE).merge({task.name!r})`.",
        ]
    return "\n".join(lines) + "\n"


def _own_head(model: Model, task: Task, base: str) -> list[str]:
    """Code for a folder whose head is the classifier of the family."""
    if task.labels:
        names = [
            f"labels = [{', '.join(map(literal, task.labels))}]",
            'names = {"id2label": dict(enumerate(labels))}',
            'names["label2id"] = {label: number for number, label in enumerate(labels)}',
        ]
        options = "**names"
    else:
        names, options = [], f"num_labels={task.size}"
    return [
        "from peft import PeftModel",
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
        "",
        *names,
        f"base = AutoModelForSequenceClassification.from_pretrained({literal(base)}, {options})",
        'model = PeftModel.from_pretrained(base, ".").eval()  # "." is this folder',
        f"tokenizer = AutoTokenizer.from_pretrained({literal(base)})",
        *_inputs(model, task),
        "logits = model(**inputs).logits",
        f"print({ANSWERS.get(task.kind, 'logits')})",
    ]


def _head_file(model: Model, task: Task, base: str) -> list[str]:
    """Code for a folder with head.safetensors."""
    windows = KINDS[task.kind].windows
    head: Any = model.heads[task.head]
    tokenizer = literal(base)
    if windows == "words" and _has_byte_tokens(model):
        tokenizer += ", add_prefix_space=True"
    lines = [
        *(["import torch"] if windows == "context" else []),
        "from peft import PeftModel",
        "from safetensors.torch import load_file",
        "from transformers import AutoModel, AutoTokenizer",
        "",
        f"base = AutoModel.from_pretrained({literal(base)})",
        'model = PeftModel.from_pretrained(base, ".").eval()  # "." is this folder',
        'head = load_file("head.safetensors")',
        f"tokenizer = AutoTokenizer.from_pretrained({tokenizer})",
        *_inputs(model, task),
        "output = model(**inputs)",
    ]
    if head.reads != "tokens":
        answer = ANSWERS.get(task.kind, "logits")
        return [*lines, *_POOL[model.pool], f"logits = pooled @ {_LOGITS}", f"print({answer})"]
    lines.append(f"logits = output.last_hidden_state @ {_LOGITS}  # of every token")
    if windows == "context":
        return [*lines, "start, end = logits[0].detach().T", *READ_SPAN]
    return [
        *lines,
        f"labels = [{', '.join(map(literal, task.labels))}]",
        "places = inputs.word_ids()",
        "first = [places.index(n) for n in range(len(words)) if n in places]  # the first piece of each word",
        "print([(words[places[n]], labels[int(logits[0, n].argmax())]) for n in first])",
    ]


def _inputs(model: Model, task: Task) -> list[str]:
    """Code that makes `inputs` of an example."""
    length = f"max_length={model.max_length}"
    options = f'truncation=True, {length}, return_tensors="pt"'
    if task.choices:
        return [
            *choice_lines(task),
            f"inputs = tokenizer([text] * len(choices), choices, padding=True, {options})",
        ]
    windows = KINDS[task.kind].windows
    if windows == "context":
        return span_inputs(task, f'"max_length": {model.max_length}, ')
    if windows == "words":
        words = expression(task.texts[0], "a text of several words")
        spaced = '[" " + word for word in words]' if _has_byte_tokens(model) else "words"
        return [
            f"words = ({words}).split()",
            f"inputs = tokenizer({spaced}, is_split_into_words=True, {options})",
        ]
    return [f"inputs = tokenizer({', '.join(expressions(task))}, {options})"]


def _has_byte_tokens(model: Model) -> bool:
    """Whether a token has the space before a word in it, which words of a list lack."""
    try:
        return bool(backends_of(model.tokenizer).byte_level)
    except WeftError:  # an encoder without a tokenizer
        return False


def _unknown(base: str) -> list[str]:
    return [
        f"`{base}` stands for the folder of the encoder that this task was trained with; weft does not know "
        "its hub id. `weft.json` has the sha256 of its weights."
    ]


def _meaning(model: Model, task: Task) -> list[str]:
    """Sentences on the logits and the answers."""
    lines = [*templates(task), *labels(task)]
    if task.range is not None:
        low, high = task.range
        lines.append(
            f"The output is the answer, clipped to {low:g} to {high:g}."
            if task.targets is not None
            else f"The output is in 0 to 1: the answer is {low:g} + {high - low:g}·output, clipped to the "
            "range."
        )
    if task.kind == "choose":
        lines.append("The probabilities are the softmax of the logits over the rows of the choices.")
    if task.kind == "rank":
        lines.append("The output is the score of one (text, candidate): the higher, the better.")
    windows = KINDS[task.kind].windows
    if windows == "words":
        lines.append("A word has the tag of its first piece.")
    if windows is not None:
        lines.append(
            f"The code cuts the row to {model.max_length} tokens; weft reads a longer one in windows."
        )
    if task.temperature is not None:
        lines.append(f"The head is divided by the task's temperature, {task.temperature:.6g}.")
    return [*lines, *thresholds(task), *rows_of_choices(task)]


def _lacks_bias(model: Model, config: dict[str, Any]) -> bool:
    """Whether a target module has no bias."""
    encoder: Any = model.encoder
    prefix = f"{encoder.base_model_prefix}." if config["task_type"] == SEQ_CLS else ""
    targets = [path.removeprefix(prefix) for path in config["target_modules"]]
    return any(encoder.get_submodule(path).bias is None for path in targets)
