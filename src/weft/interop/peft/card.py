"""The README of an exported folder, with code that loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.interop.peft.format import SEQ_CLS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

_OWN = """from peft import PeftModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

base = AutoModelForSequenceClassification.from_pretrained({base!r}, num_labels={size})
model = PeftModel.from_pretrained(base, ".").eval()  # "." is this folder
tokenizer = AutoTokenizer.from_pretrained({base!r})
inputs = tokenizer({texts}, truncation=True, max_length={length}, return_tensors="pt")
logits = model(**inputs).logits
"""

_FILE = """from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

model = PeftModel.from_pretrained(AutoModel.from_pretrained({base!r}), ".").eval()  # "." is this folder
head = load_file("head.safetensors")
tokenizer = AutoTokenizer.from_pretrained({base!r})
inputs = tokenizer({texts}, truncation=True, max_length={length}, return_tensors="pt")
output = model(**inputs)
{pool}
logits = pooled @ head["weight"].T + head["bias"]
"""

_UNKNOWN = (
    "`{base}` stands for the folder of the encoder that this task was trained with; weft does not know its "
    "hub id. `weft.json` has the sha256 of its weights."
)

_POOL = {
    "pooler": "pooled = output.pooler_output",
    "cls": "pooled = output.last_hidden_state[:, 0]",
    "mean": (
        'mask = inputs["attention_mask"][..., None]\n'
        "pooled = (output.last_hidden_state * mask).sum(1) / mask.sum(1)"
    ),
}


def card(model: Model, task: Task, config: dict[str, Any], known: bool) -> str:
    """Return the text of README.md.

    Args:
        model: the model that was exported.
        task: the task.
        config: the contents of adapter_config.json.
        known: whether the encoder's name is a hub id; else it is the name of a folder of some machine.
    """
    code = (_OWN if config["task_type"] == SEQ_CLS else _FILE).format(
        base=config["base_model_name_or_path"],
        size=task.size,
        texts=", ".join(repr(f"the {name}") for name in task.texts),
        length=model.max_length,
        pool=_POOL[model.pool],
    )
    lines = [
        "---",
        "library_name: peft",
        "---",
        "",
        f"# {task.name}",
        "",
        f"One task of a weft model (method {_method(model)}), exported as a LoRA for PEFT.",
        "",
        f"```python\n{code}```",
        "",
        *([] if known else [_UNKNOWN.format(base=config["base_model_name_or_path"]), ""]),
        *_answers(task),
        *_calibrated(task),
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


def _method(model: Model) -> str:
    return " with ".join(f"`{part.name}`" for part in model.method.parts)


def _answers(task: Task) -> list[str]:
    """A sentence on the meaning of the logits."""
    if task.labels:
        return ["The logits are of the labels, in this order: " + ", ".join(task.labels) + ".", ""]
    if task.range is not None:
        low, high = task.range
        if task.targets is not None:
            return [f"The output is the answer, clipped to {low} to {high}.", ""]
        return [
            f"The output is in 0 to 1: the answer is {low} + {high - low}·output, clipped to the range.",
            "",
        ]
    return []


def _calibrated(task: Task) -> list[str]:
    """A sentence on the temperature, if the head was divided by one."""
    if task.temperature is None:
        return []
    return [f"The head is divided by the task's temperature, {task.temperature:.6g}.", ""]


def _lacks_bias(model: Model, config: dict[str, Any]) -> bool:
    """Whether a target module has no bias."""
    encoder: Any = model.encoder
    prefix = f"{encoder.base_model_prefix}." if config["task_type"] == SEQ_CLS else ""
    targets = [path.removeprefix(prefix) for path in config["target_modules"]]
    return any(encoder.get_submodule(path).bias is None for path in targets)
