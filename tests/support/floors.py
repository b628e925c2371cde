"""The lowest versions that pyproject.toml allows, as constraints for pip.

    python tests/support/floors.py > floors.txt

`make test-floors` installs them and runs a part of the tests. It needs nothing but Python itself, because it
runs before anything is installed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

PINNED = ("torch",)
"""Not installed at its floor, since a release takes gigabytes. constraints.txt has the tested one."""

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<range>[^;\[]*)")


def requirements(pyproject: Path = PYPROJECT) -> dict[str, str]:
    """Return the range of versions of each package that weft requires, such as {"numpy": ">=1.26"}."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    matches = [REQUIREMENT.fullmatch(entry) for entry in project["dependencies"]]
    return {match["name"]: match["range"] for match in matches if match is not None}


def floor_of(versions: str) -> str | None:
    """Return the lowest version of a range: "0.26" of ">=0.26,!=0.27.*"; None if it has none."""
    match = re.search(r">=\s*([0-9][0-9A-Za-z.]*)", versions)
    return match[1] if match else None


def floors(pyproject: Path = PYPROJECT) -> dict[str, str]:
    """Return the lowest version of each package, without those of `PINNED`."""
    lowest = {name: floor_of(versions) for name, versions in requirements(pyproject).items()}
    return {name: floor for name, floor in lowest.items() if floor is not None and name not in PINNED}


if __name__ == "__main__":
    for package, floor in floors().items():
        print(f"{package}=={floor}")
