"""What a model card says: everything that is known about a bundle, read from its files and from its run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from weft.bundle.checksums import check_encoder_files
from weft.bundle.manifest import MANIFEST, find_bundle, read_bundle
from weft.encoder.catalogue import RANDOM, random_parts
from weft.encoder.packages import PACKAGES
from weft.errors import WeftError
from weft.evaluation.run_metrics import FILES, RunMetrics, read_metrics
from weft.hub.run_text import run_settings
from weft.methods import build_method
from weft.utils.hub_repository import repository
from weft.utils.notes import Tell, no_note

if TYPE_CHECKING:
    from weft.model.accounting.ledger import Ledger
    from weft.tasks.task import Task


@dataclass(frozen=True)
class EncoderFacts:
    """What is known about the encoder of a bundle.

    Attributes:
        name: its name for readers, never a path.
        hub_id: its id on the hub; None: it has none, or it is unknown.
        local: whether the bundle names a folder of this machine.
        included: whether its weights are in the bundle.
        random: whether it has no pretrained weights.
        license: its license, if it is known.
        language: its language, if it is known.
        trained_on: what it was trained on, if it is known.
        get: the command that brings its weights to a machine, if it is a built-in one.
        changed: how its weights differ from those on the hub, if they do.
    """

    name: str
    hub_id: str | None
    local: bool
    included: bool
    random: bool = False
    license: str | None = None
    language: str | None = None
    trained_on: str | None = None
    get: str | None = None
    changed: str | None = None


@dataclass(frozen=True)
class CardFacts:
    """What a model card says.

    Attributes:
        title: the name of the model, `user/name` or the bundle's folder.
        load: what users type to load it.
        manifest: the contents of bundle.json.
        tasks: the tasks by name.
        encoder: the encoder.
        ledger: the parameters by owner.
        metrics: the metrics of the run by split; {}: they are not known.
        run: the settings of the training run, without paths; None: not known.
        license: the license of the model, if the user names one.
        languages: the languages of its texts, if they are known.
    """

    title: str
    load: str
    manifest: dict[str, Any]
    tasks: dict[str, Task]
    encoder: EncoderFacts
    ledger: Ledger
    metrics: dict[str, RunMetrics] = field(default_factory=dict)
    run: dict[str, Any] | None = None
    license: str | None = None
    languages: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The name of the method."""
        return build_method(self.manifest["method"]).name

    @property
    def trains_encoder(self) -> bool:
        """Whether weights of the encoder itself were trained."""
        ledger = self.ledger
        if build_method(self.manifest["method"]).separate:
            return True
        return bool(ledger["trained"] > ledger["shared"] + sum(ledger["per_task"].values()))


def card_facts(
    bundle: str | Path,
    name: str | None = None,
    *,
    run: Path | None = None,
    encoder: Any = None,
    license: str | None = None,
    languages: tuple[str, ...] = (),
    tell: Tell = no_note,
) -> CardFacts:
    """Collect the facts of a bundle; its files are verified.

    Args:
        bundle: the bundle, or a run folder that holds one.
        name: `user/name`, as which it is published; None: not known yet.
        run: the folder of the run that wrote it; None: the one that the bundle is in, if it is in one.
        encoder: the encoder, or its folder or hub id if it has moved.
        license: the license of the model, such as `mit`.
        languages: the languages of its texts, such as `en`; by default that of the encoder, if it is known.
        tell: called with notes on what the card leaves out.
    """
    from weft.bundle.load import load

    folder = find_bundle(bundle)
    manifest, tasks = read_bundle(folder)
    check_encoder_files(folder, manifest)
    about = encoder_facts(manifest)
    run = run or run_folder(folder)
    known = (about.language,) if about.language is not None else ()
    return CardFacts(
        title=name or (run or folder.resolve()).name,
        load=name or "FOLDER",
        manifest=manifest,
        tasks=tasks,
        encoder=about,
        ledger=load(folder, encoder=encoder, device="cpu").ledger(),
        metrics={} if run is None else _metrics(run, tell),
        run=None if run is None else run_settings(run),
        license=license,
        languages=languages or known,
    )


def encoder_facts(manifest: dict[str, Any]) -> EncoderFacts:
    """Return what is known about the encoder that a bundle names.

    Args:
        manifest: the contents of bundle.json.
    """
    name, included = manifest["encoder"]["name"], bool(manifest["encoder"]["included"])
    if (package := PACKAGES.get(name)) is not None:
        return EncoderFacts(
            name,
            package.hub_id,
            local=False,
            included=included,
            license=package.license,
            language=package.language,
            trained_on=package.trained_on,
            get=package.command(name),
            changed=package.changed,
        )
    if name.startswith(RANDOM):
        architecture, tokenizer = random_parts(name)
        local = tokenizer is not None and _is_folder(tokenizer)
        shown = f"{RANDOM}{architecture}" + (f"@{_last(tokenizer)}" if tokenizer else "")
        return EncoderFacts(shown, None, local, included, random=True)
    if _is_folder(name):
        return EncoderFacts(_last(name), None, True, included)
    # the name of a model in memory is no id: such an encoder is always included
    is_id = repository(name) is not None or (not included and repository(f"x/{name}") is not None)
    return EncoderFacts(name, name if is_id else None, False, included)


def run_folder(bundle: Path) -> Path | None:
    """Return the folder of the run that wrote a bundle; None if it is not in one."""
    folder = bundle.resolve().parent
    return folder if bundle.resolve().name == "bundle" and (folder / "run.yaml").is_file() else None


def _metrics(run: Path, tell: Tell) -> dict[str, RunMetrics]:
    found = {}
    newest = (run / "bundle" / MANIFEST).stat().st_mtime
    for split, file in FILES.items():
        if not (run / file).is_file():
            continue
        try:
            found[split] = read_metrics(run, split)
            if newest > (run / file).stat().st_mtime + 1:
                tell(
                    f"the bundle is newer than {run / file}: if its weights have changed since, evaluate it "
                    f"again: weft evaluate {run} --split test, and correct the card"
                )
        except WeftError as wrong:
            tell(f"the card has no metrics of the split {split!r}: {wrong}")
    return found


def _is_folder(name: str) -> bool:
    """Whether an encoder's name is a folder of this machine, or of the one where the bundle was written."""
    absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute()
    return absolute or (name not in PACKAGES and Path(name).is_dir())


def _last(path: str) -> str:
    parts = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    return parts.name or path
