"""Attention maps of a task's adapters, for one text or one pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from weft.data.splits.split import wrong_text
from weft.data.tokens.backends import Cut, backends_of
from weft.data.tokens.encode import gives_types
from weft.errors import WeftError
from weft.methods import METHODS
from weft.model.threads import in_eval
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task


class Layer(NamedTuple):
    """One attention of a model.

    Attributes:
        name: its name in `Output.attention`: `3/ffn_delta`, `3/block`, `top/0`.
        probabilities: [heads, L, L] on the CPU; rows are queries, columns are keys.
    """

    name: str
    probabilities: Tensor


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attentions of a task's adapters on one text or pair of L tokens.

    Attributes:
        task: the task's name.
        texts: the text, or the pair.
        tokens: the L word pieces, special tokens included.
        layers: the attentions, in the order in which they run.
        cut: the number of tokens left out, because the model takes at most `max_length`.
    """

    task: str
    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    layers: tuple[Layer, ...]
    cut: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Tokens and probabilities with six decimals, as JSON values."""
        layers = [
            {
                "name": name,
                "heads": len(p),
                "probabilities": [[[round(x, 6) for x in row] for row in head] for head in p.tolist()],
            }
            for name, p in self.layers
        ]
        return {"task": self.task, "tokens": list(self.tokens), "layers": layers}


@torch.no_grad()
def attention_of(model: Model, task: str, texts: str | Sequence[str]) -> AttentionMap:
    """Run a text through the model and return the attention maps of the task's adapters.

    Args:
        model: put into eval mode, and left there.
        task: the task's name.
        texts: its text, or its pair of texts.
    """
    index = model.task_id(task)
    text_tuple = (texts,) if isinstance(texts, str) else tuple(texts)
    expected_texts = texts_of_a_row(model.tasks[index])
    if len(text_tuple) != expected_texts or any(wrong_text(text) for text in text_tuple):
        kind = "one text" if expected_texts == 1 else "a pair of texts"
        raise WeftError(f"task {task!r} takes {kind}, and no text must be empty; found {texts!r}")
    tokenizer = model.tokenizer
    # truncated as in `predict`, so that the map belongs to its answer
    backends = backends_of(tokenizer)
    cut = Cut(model.max_length, "longest_first", tokenizer.truncation_side)
    encoded = backends.cutting(cut).encode(*text_tuple)
    device = next(model.parameters()).device
    inputs = {"input_ids": torch.tensor([encoded.ids], device=device)}
    if gives_types(tokenizer):
        inputs["token_type_ids"] = torch.tensor([encoded.type_ids], device=device)
    output = in_eval(model).run(**inputs, task=torch.tensor([index], device=device), attention=True)
    if not output.attention:
        raise WeftError(_no_attention(model))
    tokens = _pieces(tokenizer, encoded, text_tuple)
    whole = len(backends.plain.encode(*text_tuple))
    layers = tuple(Layer(name, p[0].float().cpu()) for name, p in output.attention.items())
    return AttentionMap(task, text_tuple, tokens, layers, whole - len(tokens))


def texts_of_a_row(task: Task) -> int:
    """The number of texts of one row: one if they are encoded separately, two with a choice."""
    if task.apart or KINDS[task.kind].windows == "words":
        return 1
    return 2 if task.choices else len(task.texts)


def received_attention(seen: AttentionMap, source: int | None = None) -> list[tuple[str, Tensor]]:
    """Return the attention that each token receives, in every head of every layer.

    Args:
        seen: the attentions of a text of L tokens.
        source: the number of the query token; None: the mean over all tokens.

    Returns:
        (name of the layer, shares [heads, L]) for each layer; the shares of a head sum to 1.
    """
    if source is not None and not 0 <= source < len(seen.tokens):
        first, last = seen.tokens[0], seen.tokens[-1]
        raise WeftError(
            f"token {source} is outside the text, whose tokens are 0 ({first}) to "
            f"{len(seen.tokens) - 1} ({last}); pass one of these, or mean for all of them"
        )
    return [(name, p.mean(1) if source is None else p[:, source]) for name, p in seen.layers]


def most(shares: Tensor, count: int = 3) -> list[tuple[int, float]]:
    """(number, share) of the tokens with the largest shares, in a stable order; shares [L]."""
    order = shares.argsort(descending=True, stable=True)[:count].tolist()
    return [(token, float(shares[token])) for token in order]


def layer_of(name: str) -> int | None:
    """The number of the block that an attention belongs to; None for those on top."""
    block = name.partition("/")[0]
    return int(block) if block.isdecimal() else None


def title_of(name: str) -> str:
    """The name of an attention that is shown."""
    block = layer_of(name)
    return f"on top ({name})" if block is None else f"layer {block} ({name})"


def in_layers(seen: AttentionMap, numbers: Sequence[int]) -> AttentionMap:
    """Return only the attentions of these blocks; if there are none, an error lists those that exist."""
    kept = tuple(layer for layer in seen.layers if layer_of(layer.name) in numbers)
    if not kept:
        existing = ", ".join(name for name, _ in seen.layers)
        raise WeftError(
            f"layers {', '.join(map(str, numbers))} have no attention of the task; attentions are at: "
            f"{existing}"
        )
    return replace(seen, layers=kept)


def methods_with_attention() -> list[str]:
    """The methods whose adapters contain an attention."""
    return [name for name in METHODS if METHODS[name].attends]


def _no_attention(model: Model) -> str:
    names = " + ".join(part.name for part in model.method.parts)
    others = ", ".join(methods_with_attention())
    return (
        f"this model's method, {names}, gives its tasks no attention to show; "
        f"methods that do: {others} (pals and pals_lhuc only with inside: attention)"
    )


def _pieces(tokenizer: Any, encoded: Any, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The word pieces with the tokenizer's marks (`##ing`, `▁cat`, `Ġcat`), readable in any script."""
    pieces: list[str] = tokenizer.convert_ids_to_tokens(encoded.ids)
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if type(decoder).__name__ == "ByteLevel":
        # a byte-level tokenizer writes each byte beyond ASCII as a different letter
        places = zip(pieces, encoded.offsets, encoded.sequence_ids, strict=True)
        pieces = [
            piece if piece.isascii() or text is None else _from_bytes(piece, decoder, texts[text][slice(*at)])
            for piece, at, text in places
        ]
    return tuple(map(_visible, pieces))


def _from_bytes(piece: str, decoder: Any, covers: str) -> str:
    """Decode a piece of bytes; `covers` is the text it covers, used for a part of a character."""
    text: str = decoder.decode([piece])
    if "\ufffd" in text:
        text = covers
    return f"Ġ{text[1:]}" if text.startswith(" ") else text


def _visible(text: str) -> str:
    """The text with `\\n`, `\\u200f` and so on for what would not show, or would move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
