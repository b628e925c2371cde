"""Jobs: what a worker needs to know to predict one partition, as JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.bundle.manifest import bundle_sha256
from weft.bundle.no_bundle import is_onnx_export
from weft.corpora.partition import Partition
from weft.inference.limits import CHARACTERS, most_characters
from weft.inference.requests import Asked
from weft.utils.notes import Tell, no_note
from weft.workflows.predict import DIGITS, Predictor


@dataclass(frozen=True)
class Settings:
    """What is the same for all partitions.

    Attributes:
        bundle: the bundle, the folder of a run, or an export to ONNX, as an absolute path.
        asked: the task or tasks, the columns, and what is copied to the output.
        form: the format of all files; None: by their endings.
        on_error: `skip`: a row that cannot be read goes to the file of errors; `stop`: it ends the command.
        digits: to how many decimals numbers are rounded.
        precision: float32, bf16 or int8.
        encoder: folder or hub id of the encoder, if it has moved.
        device: cpu, cuda, …; None: a GPU if there is one.
    """

    bundle: str
    asked: Asked = field(default_factory=Asked)
    form: str | None = None
    on_error: str = "skip"
    digits: int = DIGITS
    precision: str = "float32"
    encoder: str | None = None
    device: str | None = None

    @property
    def identity(self) -> str:
        """The sha256 of the bundle's files and of everything else that decides on the predictions."""
        from weft.interop.onnx.folder import export_sha256

        facts = asdict(self)
        for name in ("bundle", "device"):  # a bundle may be moved; a device changes the last digits at most
            facts.pop(name)
        run = Path(self.bundle) / "run.yaml"
        # a run file says which columns hold the texts
        facts["run"] = hashlib.sha256(run.read_bytes()).hexdigest() if run.is_file() else None
        if most_characters() != CHARACTERS:  # a row that was too long may be read now
            facts["characters"] = most_characters()
        of_files = export_sha256 if is_onnx_export(self.bundle) else bundle_sha256
        facts["files"] = of_files(self.bundle)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def predictor(self, device: str | None = None, tell: Tell = no_note) -> Predictor:
        """What predicts files with these settings; nothing is loaded yet.

        Args:
            device: overrides the device of the settings, except for an export to ONNX, which runs on the CPU.
            tell: called with notes.
        """
        return Predictor(
            self.bundle,
            self.asked,
            self.form,
            self.on_error,
            self.digits,
            self.precision,
            self.encoder,
            self.device if device is None or is_onnx_export(self.bundle) else device,
            tell,
        )


@dataclass(frozen=True)
class Job:
    """One partition to predict.

    Attributes:
        partition: the partition.
        settings: how.
        state: the identity of bundle and settings, for the record.
        log: the file that a worker process prints to.
    """

    partition: Partition
    settings: Settings
    state: str
    log: str = ""

    @property
    def identity(self) -> str:
        """What tells jobs apart."""
        return str(self.partition.output)

    kind = "predict"
    """All jobs are of one kind: any worker takes any of them."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, line: str) -> Job:
        """Read the result of `to_json`."""
        facts: dict[str, Any] = json.loads(line)
        partition, settings = facts.pop("partition"), facts.pop("settings")
        asked = Asked(**settings.pop("asked"))
        partition |= {name: Path(partition[name]) for name in ("input", "output")}
        return cls(Partition(**partition), Settings(asked=asked, **settings), **facts)
