"""The header of a model card: the metadata that the hub indexes, as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.hub.run_text import data_sets
from weft.tasks.kinds import KINDS
from weft.utils.hub_repository import first_line
from weft.utils.safe_yaml import YamlError, parse_yaml

if TYPE_CHECKING:
    from weft.hub.facts import CardFacts

LIBRARY = "weft"
NO_TAG = "other"
"""The type of a task for which the hub has no word; `model-index` requires one."""


def header(facts: CardFacts) -> str:
    """Return the YAML of a card's header, without the lines `---` around it.

    Args:
        facts: what is known about the model.
    """
    from huggingface_hub import ModelCardData

    encoder = facts.encoder
    sets = data_sets(facts.run or {})
    relation = None
    if encoder.hub_id is not None:
        relation = "finetune" if facts.trains_encoder else "adapter"
    results = eval_results(facts)
    data = ModelCardData(
        language=_one_or_list(facts.languages),
        license=facts.license,
        library_name=LIBRARY,
        base_model=encoder.hub_id,
        base_model_relation=relation,
        pipeline_tag=pipeline_tag(facts),
        tags=tags(facts),
        datasets=sorted({name.split("@")[0] for name in sets.values() if name.count("/") <= 1}) or None,
        model_name=facts.title.rpartition("/")[2],
        eval_results=results or None,
    )
    if not results:
        data.model_name = None
    return str(data.to_yaml()).strip()


def tags(facts: CardFacts) -> list[str]:
    """The tags of a card: weft, the method, and the kinds of the tasks."""
    kinds = sorted({task.kind for task in facts.tasks.values()})
    several = ["multi-task"] if len(facts.tasks) > 1 else []
    words = [LIBRARY, *several, *facts.method.split("+"), *kinds]
    return list(dict.fromkeys(word.strip().replace("_", "-") for word in words if word.strip()))


def pipeline_tag(facts: CardFacts) -> str | None:
    """What the hub calls the model's tasks; None if they differ, or if it has no word for them."""
    found = {KINDS[task.kind].pipeline_tag for task in facts.tasks.values()}
    return found.pop() if len(found) == 1 else None


def eval_results(facts: CardFacts) -> list[Any]:
    """The metrics of every task and split, as `huggingface_hub.EvalResult`."""
    from huggingface_hub import EvalResult

    sets = data_sets(facts.run or {})
    return [
        EvalResult(
            task_type=KINDS[facts.tasks[name].kind].pipeline_tag or NO_TAG,
            task_name=name,
            dataset_type=sets.get(name, name),
            dataset_name=sets.get(name, name),
            dataset_split=split,
            metric_type=metric,
            metric_value=round(value, 6),
        )
        for split, metrics in facts.metrics.items()
        for name, values in metrics.tasks.items()
        if name in facts.tasks
        for metric, value in values.items()
    ]


def check_card(text: str, where: str) -> None:
    """Refuse a card whose header the hub would refuse, before anything is uploaded.

    Args:
        text: the card.
        where: its path, for messages.
    """
    from huggingface_hub import ModelCardData

    lines = text.replace("\r\n", "\n").lstrip("\ufeff").split("\n")
    if lines[0].strip() != "---" or "---" not in [line.strip() for line in lines[1:]]:
        raise WeftError(
            f"{where} has no header; expected YAML between two lines '---' at its beginning, as in a card "
            "that weft card prints"
        )
    end = [line.strip() for line in lines[1:]].index("---") + 1
    try:
        settings = parse_yaml("\n".join(lines[1:end]))
    except YamlError as wrong:
        raise WeftError(f"{where}: its header is not YAML: {wrong}") from None
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise WeftError(f"{where}: its header is {type(settings).__name__}; expected names and values")
    try:
        ModelCardData(**settings).to_yaml()
    except Exception as wrong:  # of any value that does not fit
        raise WeftError(f"{where}: the hub would not accept its header: {first_line(wrong)}") from None


def _one_or_list(values: tuple[str, ...]) -> str | list[str] | None:
    return None if not values else values[0] if len(values) == 1 else list(values)
