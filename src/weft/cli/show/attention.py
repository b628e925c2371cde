"""`weft show attention`: the attention weights of a task's PALs for one text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import BundleArgument, EncoderOption, Json, Layers, TaskOption, chosen_task
from weft.cli.output import print_json, print_note, print_written
from weft.cli.paths import check_place
from weft.errors import WeftError
from weft.utils.files import write_output
from weft.utils.terminal import console as new_console
from weft.utils.terminal import escaped, escaped_line

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from weft.analysis.attention import AttentionMap
    from weft.analysis.plots.attention_colors import AttentionColors
    from weft.model.model import Model

BLOCKS, DIGITS = "▁▂▃▄▅▆▇", "1234567"
"""Bars from the lowest level to the highest: an odd number, so that the even share is the middle of one."""
MEAN = "mean"


def attention(
    bundle: BundleArgument,
    text: Annotated[str, typer.Option(help="text that the model reads")],
    pair: Annotated[
        str | None, typer.Option(help="second text; required for a task on pairs of texts")
    ] = None,
    task: TaskOption = None,
    layers: Layers = None,
    whose: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TOKEN|mean",
            help="token whose attention is shown, by its number from 0 on, or mean for the mean over all "
            "tokens",
        ),
    ] = MEAN,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write heat maps to this file; default: none")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write a web page with all heads to this file; default: none"),
    ] = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Show which tokens a task's PAL attends to.

    For the methods whose adapters have their own attention (projected attention layers, PALs). Prints the
    share of attention that each token receives, by layer and head.

    Example: weft show attention runs/pals --task cola --text "Cats sleep."
    """
    for option, file in (("--svg", svg), ("--html", html)):
        check_place(option, file)
    source = _source(whose)
    from weft.bundle.load import load
    from weft.bundle.manifest import find_bundle

    find_bundle(bundle)
    model = load(bundle, encoder=encoder)
    from weft.analysis.attention import attention_of, in_layers, received_attention
    from weft.encoder.anatomy import sites_of
    from weft.encoder.sites import parse_layers

    name = chosen_task(model, bundle, task)
    attention_map = attention_of(model, name, _texts(model, name, text, pair))
    if layers is not None:
        # one encoder: methods that give each task a whole encoder have no attention to show
        attention_map = in_layers(attention_map, parse_layers(layers, sites_of(model.encoder).num_layers))
    shares = received_attention(attention_map, source)
    if attention_map.cut:
        used = len(attention_map.tokens)
        print_note(f"only {used} of the {used + attention_map.cut} tokens are used (the model's max_length)")
    from weft.analysis.plots.attention import attention_svg

    # the files first: the reader of a pipe may close it before everything is printed
    if svg is not None:
        write_output(svg, attention_svg(attention_map))
    if html is not None:
        from weft.reporting.attention_page import attention_html

        write_output(html, attention_html(attention_map, source))
    if as_json:
        print_json(attention_map.as_dict())
    else:
        _draw(attention_map, shares, source)
    for file in (svg, html):
        print_written(file, as_json)


def _source(whose: str) -> int | None:
    """The number of the token whose attention is shown; None for the mean over all tokens."""
    if whose == MEAN:
        return None
    try:
        return int(whose)
    except ValueError:
        raise WeftError(f"--from {whose!r}: expected the number of a token, from 0 on, or {MEAN}") from None


def _texts(model: Model, name: str, text: str, pair: str | None) -> tuple[str, ...]:
    """The text or the pair of texts, as many as the task takes and none of them empty."""
    from weft.data.splits.split import wrong_text

    columns = model.tasks[model.task_id(name)].texts
    if len(columns) == 2 and pair is None:
        first, second = columns
        raise WeftError(
            f"task {name!r} takes two texts, {first} and {second}; pass the second one with --pair TEXT"
        )
    if len(columns) == 1 and pair is not None:
        raise WeftError(f"task {name!r} takes one text; leave --pair out (found {pair!r})")
    texts = (text,) if pair is None else (text, pair)
    for option, value in zip(("--text", "--pair"), texts, strict=False):
        if wrong := wrong_text(value):
            raise WeftError(f"{option} is {value!r}: {wrong}")
    return texts


def _draw(attention_map: AttentionMap, shares: list[tuple[str, Tensor]], source: int | None) -> None:
    """Print one block per layer, one line per head: shaded tokens on a terminal, else bars below tokens."""
    from rich.cells import cell_len

    from weft.analysis.attention import most, title_of
    from weft.analysis.plots.attention_colors import AttentionColors, percent

    console = new_console(highlight=False)
    # 16 colours are too few for shades
    coloured = console.is_terminal and not console.no_color and console.color_system in ("256", "truecolor")
    largest = max(float(s.max()) for _, s in shares)
    colors = AttentionColors.of(largest, len(attention_map.tokens))
    printable = [_printable(token, console.encoding) for token in attention_map.tokens]
    # a combining accent alone has no width
    tokens = [token if cell_len(token) else f"{token} " for token in printable]
    blocks = BLOCKS if _printable(BLOCKS, console.encoding) == BLOCKS else DIGITS
    numbered = [f"{number}:{token}" for number, token in enumerate(tokens)]
    who = "all tokens (mean)" if source is None else numbered[source]
    legend = colors.describe() if coloured else _describe_bars(colors, blocks)
    _print(console, f"task {attention_map.task}: attention that each token receives from {who}")
    _print(console, f"{legend}; the shares of one head sum to 100%")
    for line in _wrapped(numbered, console.width):
        _print(console, " ".join(numbered[i] for i in line))
    margin = f"  head {max(len(s) for _, s in shares) - 1}  "
    for name, of_heads in shares:
        _print(console, f"\n{title_of(name)}")
        for line in _wrapped(tokens, console.width - len(margin)):
            words = [tokens[i] for i in line]
            if not coloured:
                _print(console, " " * len(margin) + " ".join(words))
            for head, of_tokens in enumerate(of_heads[:, line].tolist()):
                start = f"  head {head}".ljust(len(margin))
                if coloured:
                    _print_shaded(console, start, words, of_tokens, colors)
                else:
                    _print(console, start + _bars(words, of_tokens, colors, blocks))
        for head, of_tokens in enumerate(of_heads):
            top = ", ".join(f"{numbered[token]} {percent(share)}" for token, share in most(of_tokens))
            _print(console, f"  head {head}".ljust(len(margin)) + f"most: {top}")


def _wrapped(words: list[str], width: int) -> list[list[int]]:
    """The numbers of the words on each line, with one space between words; a word is never split."""
    from rich.cells import cell_len

    lines: list[list[int]] = []
    used = 0
    for number, word in enumerate(words):
        needed = cell_len(word) + 1
        if not lines or used + needed - 1 > width:
            lines.append([])
            used = 0
        lines[-1].append(number)
        used += needed
    return lines


def _describe_bars(colors: AttentionColors, blocks: str) -> str:
    from weft.analysis.plots.attention_colors import percent

    return (
        f"{blocks[len(blocks) // 2]}: about the even share, {percent(colors.even)}; higher: more, up to "
        f"{percent(colors.top)}; lower: less, down to {percent(colors.floor)} and below"
    )


def _bars(tokens: list[str], shares: list[float], colors: AttentionColors, blocks: str) -> str:
    """One bar under each token, as wide as the token."""
    from rich.cells import cell_len

    middle = len(blocks) // 2
    steps = [middle + round(middle * level) for level in colors.levels(shares).tolist()]
    return " ".join(blocks[step] * cell_len(token) for token, step in zip(tokens, steps, strict=True))


def _print_shaded(
    console: Console, start: str, tokens: list[str], shares: list[float], colors: AttentionColors
) -> None:
    from rich.text import Text

    from weft.analysis.plots.attention_colors import color, ink

    line = Text(start)
    for number, (token, level) in enumerate(zip(tokens, colors.levels(shares).tolist(), strict=True)):
        line.append(" " if number else "").append(token, style=f"{ink(level)} on {color(level)}")
    console.print(line, soft_wrap=True)


def _print(console: Console, line: str) -> None:
    """Print a line without markup and without rich's own wrapping."""
    from rich.text import Text

    console.print(Text(escaped(line)), soft_wrap=True)


def _printable(text: str, encoding: str) -> str:
    """The text with escapes such as `\\u65e5` for control characters and what the output's encoding lacks."""
    return escaped_line(text).encode(encoding, "backslashreplace").decode(encoding)
