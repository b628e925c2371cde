"""The wheel: complete, the same from the source archive, and enough by itself to train and predict."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "weft"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def shell(*words: str | Path, folder: Path, **variables: str) -> str:
    """Run a command without any setting of this process that could lead it to the checkout."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=inherited | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, out: Path, *options: str) -> None:
    """Run `python -m build` with the build packages of this environment."""
    backend = ["--no-isolation"] if find_spec("hatchling") else []
    shell(sys.executable, "-m", "build", *backend, *options, "--outdir", out, source, folder=out.parent)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel made from the source archive, which `python -m build` makes first."""
    if find_spec("build") is None:
        pytest.skip("needs the package build")
    folder = tmp_path_factory.mktemp("wheel")
    build(ROOT, folder / "dist")
    (file,) = (folder / "dist").glob("*.whl")
    return file


def contents(file: Path) -> dict[str, str]:
    """The files of a wheel with their sha256."""
    with zipfile.ZipFile(file) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = contents(wheel)
    expected = {
        f"weft/{file.relative_to(SOURCE)}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    endings = {Path(name).suffix for name in expected}
    assert {".py", ".yaml", ".css", ".js", ".html", ".typed"} <= endings
    assert {name: files.get(name) for name in expected} == expected
    others = {
        name for name in files if not name.startswith(("weft/", f"weft-{PROJECT['version']}.dist-info/"))
    }
    assert not others, "no tests, no documentation"


@pytest.mark.slow
def test_the_checkout_gives_the_same_wheel_as_the_source_archive(wheel, tmp_path):
    (tmp_path / "dist").mkdir()
    build(ROOT, tmp_path / "dist", "--wheel")
    (other,) = (tmp_path / "dist").glob("*.whl")
    assert contents(other) == contents(wheel)


PROBE = """
import json, sys, weft, weft.cli, torch
print(json.dumps({"weft": weft.__file__, "torch": torch.__file__, "path": sys.path}))
"""


@pytest.mark.slow
def test_the_wheel_trains_and_predicts_in_an_environment_of_its_own(wheel, tmp_path):
    """A new environment that has only the wheel; other packages are read where they are installed."""
    home = tmp_path / "environment"
    shell(sys.executable, "-m", "venv", "--without-pip", home, folder=tmp_path)
    python = home / "bin" / "python"
    packages = Path(
        shell(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip()
    )
    # pip of this environment, as it would install there: with the entry point
    shell(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel),
        folder=tmp_path,
    )
    # of the installed packages all but weft, whose own entry may lead to the checkout
    shared = tmp_path / "packages"
    shared.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "weft" not in entry.name and entry.suffix != ".pth":
            (shared / entry.name).symlink_to(entry)
    (packages / "shared.pth").write_text(f"{shared}\n", encoding="utf-8")
    probe = json.loads(shell(python, "-c", PROBE, folder=tmp_path))
    assert Path(probe["weft"]).is_relative_to(packages)
    assert Path(probe["torch"]).is_relative_to(shared)
    assert not [entry for entry in probe["path"] if Path(entry or tmp_path).is_relative_to(ROOT)]
    command = home / "bin" / "weft"
    assert shell(command, "--version", folder=tmp_path).split()[1].strip(",") == PROJECT["version"]
    small = ["train.steps=5", "train.batch_size=8", "train.evaluate_rows=10", "train.last_evaluation=subset"]
    small += ["train.baselines=false", "train.max_length=32", "heads.start=random"]
    shell(command, "train", "quickstart", *small, "--out", "run", "--quiet", folder=tmp_path)
    shutil.copy(ROOT / "examples" / "mixed.jsonl", tmp_path)
    answers = shell(command, "predict", "run", "mixed.jsonl", folder=tmp_path).splitlines()
    assert len(answers) == len((ROOT / "examples" / "mixed.jsonl").read_text().splitlines())
    assert all("task" in json.loads(answer) for answer in answers)
    # package data: presets and recipes, pages
    assert "sampling" in shell(command, "show", "recipes", folder=tmp_path)
    shell(command, "report", "run", "--quiet", folder=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()


def pythons() -> list[str]:
    """Python 3.12 and later, where they are found."""
    found = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    kept = Path.home() / ".pyenv" / "versions"
    found += [str(file) for file in sorted(kept.glob("3.1[2-9].*/bin/python"))]
    working = []
    for python in filter(None, found):
        if subprocess.run([python, "--version"], capture_output=True).returncode == 0:
            working.append(python)
    return working


WITHOUT_PACKAGES = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
import weft
assert len(dir(weft)) > 25 and weft.__version__
for name in ("weft.errors", "weft.registry", "weft.serving.client", "weft.utils.safe_json", "weft.core"):
    importlib.import_module(name)
weft.Client("http://localhost:8000")
print(sys.version.split()[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("python", pythons() or [pytest.param("", marks=pytest.mark.skip("no other Python"))])
def test_other_versions_of_python_read_the_wheel(python, wheel, tmp_path):
    """Every file compiles, and what needs no other package is imported."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    shell(python, "-W", "error", "-m", "compileall", "-q", tmp_path / "wheel", folder=tmp_path)
    printed = shell(python, "-c", WITHOUT_PACKAGES, tmp_path / "wheel", folder=tmp_path)
    assert tuple(map(int, printed.split(".")[:2])) >= (3, 12)


def test_every_extra_is_on_the_page_of_installing():
    text = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip(" `") for line in text.splitlines() if line.startswith("| `")]
    assert rows == list(dict.fromkeys(rows))
    assert set(rows) == set(PROJECT["optional-dependencies"])
