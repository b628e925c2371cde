"""What is uploaded: the files of a bundle and its card, and nothing else of its folder or its run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.bundle.checksums import ENCODER, FILES, MANIFEST, SHARED_FILE, check_encoder_files, task_path
from weft.bundle.from_hub import is_bundle_file
from weft.bundle.manifest import find_bundle, read_bundle
from weft.errors import WeftError, words
from weft.hub.card import CARD
from weft.hub.facts import encoder_facts
from weft.utils.checksums import sealed
from weft.utils.files import as_json, new_folder
from weft.utils.temporary import scratch_folder


@dataclass(frozen=True)
class Staged:
    """The files of a repository.

    Attributes:
        files: the contents of each file by its path in the repository: a file, or bytes.
    """

    files: dict[str, Path | bytes]

    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        return {
            path: len(content) if isinstance(content, bytes) else content.stat().st_size
            for path, content in self.files.items()
        }

    def write(self, folder: Path) -> None:
        """Write all files into a new folder."""
        if folder.exists():
            raise WeftError(f"{words('--out', 'out')} {folder}: this already exists; pass a new folder")
        with new_folder(folder) as work:
            for path, content in self.files.items():
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                data = content if isinstance(content, bytes) else content.read_bytes()
                (work / path).write_bytes(data)


def stage(bundle: Path, card: str) -> Staged:
    """Return what is uploaded of a bundle; its files are verified first.

    Args:
        bundle: the bundle itself.
        card: the text of its card.
    """
    manifest, tasks = read_bundle(bundle)
    check_encoder_files(bundle, manifest)
    check_portable(bundle, manifest)
    names = [SHARED_FILE, *(task_path(name) for name in tasks)]
    if manifest["encoder"]["included"]:
        listed = manifest.get(FILES)
        if listed is None:
            raise WeftError(
                f"{bundle} was written by an earlier version of weft and does not list its files; write it "
                "again: weft.load(FOLDER).save(NEW)"
            )
        names += [name for name in listed if name.startswith(f"{ENCODER}/")]
    for name in names:
        if not is_bundle_file(name):
            raise WeftError(
                f"{bundle / name}: weft does not fetch files of such names from the hub; remove it, or write "
                "the bundle again: weft.load(FOLDER).save(NEW)"
            )
    files: dict[str, Path | bytes] = {MANIFEST: _manifest(bundle, manifest)}
    files |= {name: bundle / name for name in names}
    return Staged({**files, CARD: card.encode()})


def check_portable(bundle: Path, manifest: dict[str, Any]) -> None:
    """Refuse a bundle that only names an encoder in a folder of this machine: others could not load it."""
    facts = encoder_facts(manifest)
    if facts.local and not facts.included:
        raise WeftError(
            f"{bundle} needs the encoder in {manifest['encoder']['name']}, a folder of this machine, and "
            "does not include it: nobody else could load it\n  include the encoder: "
            + words("add --with-encoder", "pass with_encoder=True, or model.save(FOLDER, with_encoder=True)")
            + "\n  or train with an encoder that has an id on the hub"
        )


def _manifest(bundle: Path, manifest: dict[str, Any]) -> Path | bytes:
    """bundle.json; without the path of the folder that an included encoder came from."""
    name = encoder_facts(manifest).name
    if name == manifest["encoder"]["name"]:
        return bundle / MANIFEST
    changed = copy.deepcopy(manifest)
    changed["encoder"]["name"] = name
    return as_json(sealed(changed)).encode()


@contextmanager
def bundle_to_push(model: Any, with_encoder: bool, encoder: Any) -> Iterator[Path]:
    """Inside, a bundle's folder: the one that is named, or a temporary one.

    Args:
        model: a bundle, a run folder that holds one, or a `Model`.
        with_encoder: whether the encoder is to be included.
        encoder: the encoder, or its folder or hub id if it has moved.
    """
    folder = find_bundle(model) if isinstance(model, str | Path) else None
    if folder is not None and not (with_encoder and not read_bundle(folder)[0]["encoder"]["included"]):
        yield folder
        return
    from weft.bundle.load import load

    loaded = model if folder is None else load(folder, encoder=encoder, device="cpu")
    if not hasattr(loaded, "save"):
        raise WeftError(f"expected a model, or the folder of a run or bundle; found {model!r}")
    with scratch_folder("weft-push") as work:
        yield loaded.save(work / "bundle", with_encoder=with_encoder)
