"""The packages of the extra `onnx`."""

from __future__ import annotations

from importlib.util import find_spec

from weft.errors import WeftError


def need(*packages: str) -> None:
    """Refuse to go on if one of these packages is missing."""
    for package in packages:
        if find_spec(package) is None:
            raise WeftError(f"ONNX needs the package {package!r}: pip install 'weft[onnx]'")
