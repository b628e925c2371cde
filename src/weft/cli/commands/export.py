"""`weft export`: write one task of a bundle, or all, in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.commands import Command
from weft.cli.completion import export_formats, task_names
from weft.cli.help import PlainCommand
from weft.cli.options import BundleArgument, EncoderOption, Json, chosen_task
from weft.cli.output import print_json, print_text
from weft.errors import WeftError, did_you_mean
from weft.settings import SettingsError
from weft.utils.safe_yaml import YamlError, parse_yaml


class WithFormats(PlainCommand):
    """A command whose help ends with the export formats and their options."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write one line per format and one line per option."""
        from weft.interop import EXPORTERS

        lines = []
        for name in EXPORTERS:
            lines.append((name, EXPORTERS[name].summary))
            fields = EXPORTERS[name].model_fields
            lines += [(f"  {key}", field.description or "") for key, field in fields.items()]
        with formatter.section("Formats (--to) and their options (--set KEY=VALUE)"):
            formatter.write_dl(lines)


def export(
    bundle: BundleArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="export format, one of those listed below", autocompletion=export_formats
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="file or folder to write, depending on the format")
    ],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="name of the task; required if the model has several tasks; not for onnx, which has all",
            autocompletion=task_names,
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="auto|file", help="same as --set head=auto or --set head=file; for the format peft only"
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="option of the format, as listed below; may be repeated"
        ),
    ] = None,
    encoder: EncoderOption = None,
    as_json: Json = False,
) -> None:
    """Export one task, or all, to the format of another library.

    An earlier export at PATH is replaced; anything else there is refused.

    Example: weft export runs/first --task rte --to hf --out exported/rte

    Example: weft export runs/first --to onnx --out exported
    """
    from weft.bundle.manifest import find_bundle
    from weft.interop import EXPORTERS

    if to not in EXPORTERS:
        raise WeftError(f"--to {to!r} is unknown; {did_you_mean(to, EXPORTERS)}")
    settings = _settings(options or [])
    if head is not None:
        known = EXPORTERS[to].model_fields
        if "head" not in known:
            options_ = f"its options: {', '.join(known)}" if known else "it has no options"
            raise WeftError(f"--head: export format {to!r} has no option head; {options_}")
        settings["head"] = head
    try:
        exporter = EXPORTERS[to](**settings)
    except SettingsError as wrong:
        mistakes = [
            f"--head {text}" if key == "head" and head else f"{key}: {text}" for key, text in wrong.mistakes
        ]
        raise WeftError(f"export format {to!r}: " + "; ".join(mistakes)) from None
    if exporter.all_tasks and task is not None:
        raise WeftError(
            f"--task {task}: export format {to!r} holds all tasks of the bundle; leave --task out"
        )
    find_bundle(bundle)
    exporter.check(out)  # before the model is loaded, which takes longer

    from weft.bundle.load import load
    from weft.interop.refusals import with_paths

    model = load(bundle, encoder=encoder)
    name = "" if exporter.all_tasks else chosen_task(model, bundle, task)
    try:
        facts = exporter.export(model, name, out)
    except WeftError as wrong:
        wrong.args = (with_paths(str(wrong), bundle, out),)  # of the same class: it decides the exit code
        raise
    if as_json:
        print_json({"out": str(out), **({} if exporter.all_tasks else {"task": name}), **facts})
    else:
        print_text("\n".join(exporter.report(out, name, facts)))


def _settings(options: list[str]) -> dict[str, Any]:
    """Parse `key=value` options; values are read as YAML, as in `weft train RUN.yaml key=value`."""
    settings: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not key or not equals:
            raise WeftError(f"--set {option!r}: expected KEY=VALUE, such as precision=int8")
        try:
            settings[key] = parse_yaml(value)
        except YamlError:
            raise WeftError(f"--set {option!r}: the value {value!r} cannot be read as YAML") from None
    return settings


COMMAND = Command(export, WithFormats)
