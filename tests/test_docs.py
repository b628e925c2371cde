"""The documentation names what there is, and its examples are what the readers accept."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.layers import LAYERS
from tests.support.pages import PAGES, Block, anchors, blocks, commands, links, spans
from tests.support.paths import ROOT
from weft.config import load_run
from weft.config.presets import preset_text
from weft.config.run_file import SECTIONS
from weft.config.task_file import Host, load_task_file
from weft.data.readers.streamed import json_rows, stream_lines
from weft.experiments.claims import check_claims
from weft.experiments.grid import KEYS as GRID_KEYS
from weft.experiments.grid import read_grid
from weft.growing.settings import GrowSettings
from weft.inference.requests import Asked, RequestReader
from weft.methods import METHODS, build_method
from weft.model.head_settings import HeadSettings
from weft.sampling import SAMPLERS
from weft.suites import find_suite
from weft.suites.tables import read_yaml, table_names
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task
from weft.training.conflict import CONFLICTS
from weft.training.settings import Training

DOCS = ROOT / "docs"
NAMED = ["src/weft", "src", "tests", "benchmarks", "examples", "docs"]
"""Where a file that a page names may be, beside the project's root."""


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def ids(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


# --- names ---------------------------------------------------------------------------------------------


def test_every_key_of_a_run_file_is_explained():
    text = read("run-file.md")
    for key in (*Training.model_fields, *HeadSettings.model_fields):
        assert f"\n| {key} |" in text, key
    for section in SECTIONS:
        assert f"`{section}`" in text, section


def test_every_key_of_a_task_file_is_explained():
    text = read("growing.md")
    for key in GrowSettings.model_fields:
        assert f"\n| {key} |" in text, key


def test_every_setting_describes_itself():
    for settings in (Training, HeadSettings, GrowSettings, *(METHODS[name] for name in METHODS)):
        for key, field in settings.model_fields.items():
            assert field.description, f"{settings.__name__}.{key}"


def test_every_registered_name_is_on_its_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in METHODS:
        assert f"`{name}`" in readme
        assert f"`{name}`" in read("methods.md")
    for name in SAMPLERS:
        assert f"`{name}`" in read("training.md")
    for name in CONFLICTS:
        assert f"`{name}`" in read("reference/training.md")
    for name in KINDS:
        assert f"`{name}`" in read("kinds.md")


def test_the_design_names_every_room():
    text = read("design.md")
    for room in LAYERS:
        if (ROOT / "src" / "weft" / room).is_dir():
            assert f"| `{room}/` |" in text, room


def test_the_index_lists_every_page():
    listed = {target.partition("#")[0] for target in links(DOCS / "README.md")}
    for page in PAGES:
        if not page.is_relative_to(DOCS):
            continue
        name = str(page.relative_to(DOCS))
        assert name == "README.md" or name in listed, name


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == project["version"]
    assert citation["abstract"] == project["description"]
    assert citation["title"] == project["name"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# --- links, files, modules -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page):
    for target in links(page):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


WRITTEN = [page for page in PAGES if page.name != "extension.md"]
"""Pages whose files and modules exist; those of the recipes are written by tests/extension."""


@pytest.mark.parametrize("page", WRITTEN, ids=ids)
def test_named_files_exist(page):
    for span in spans(page):
        if re.fullmatch(r"[\w./-]+\.(py|md)", span) or re.match(
            r"(src|tests|benchmarks|examples)/[\w./-]+$", span
        ):
            places = [ROOT / span, *(ROOT / folder / span for folder in NAMED), page.parent / span]
            assert any(place.exists() for place in places), span


@pytest.mark.parametrize("page", WRITTEN, ids=ids)
def test_named_modules_and_names_exist(page):
    """`weft.a.b.name` in a page can be imported, or is an attribute of what can."""
    text = page.read_text(encoding="utf-8")
    for dotted in sorted(set(re.findall(r"(?<![\w/.])weft(?:\.[A-Za-z_]\w*)+", text))):
        if dotted == "weft.json":  # a file of an exported task
            continue
        module, *rest = "weft", *dotted.split(".")[1:]
        thing = importlib.import_module(module)
        for part in rest:
            if not hasattr(thing, part):
                thing = importlib.import_module(f"{thing.__name__}.{part}")
            else:
                thing = getattr(thing, part)


def test_benchmarks_that_are_named_exist():
    """`python -m benchmarks.NAME --flag`: the module is there, and its source names the flag."""
    count = 0
    for where, words in commands("python -m"):
        if not words[0].startswith("benchmarks"):
            continue
        count += 1
        spec = importlib.util.find_spec(words[0])
        assert spec is not None, where
        assert spec.origin is not None
        file = Path(spec.origin)
        file = file.with_name("__main__.py") if file.name == "__init__.py" else file
        source = file.read_text(encoding="utf-8")
        for word in words[1:]:
            if word.startswith("--"):
                assert f'"{word}"' in source or f'"{word[2:]}"' in source, f"{where}: {word}"
    assert count > 5


# --- examples ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder in which every suite finds files (empty ones: a run file is read without its data)."""
    folder = tmp_path_factory.mktemp("pages")
    for suite in table_names():
        tasks = read_yaml(suite)["tasks"]
        for task in tasks:
            for split in ("train", "validation", "validation_matched", "validation_mismatched", "test"):
                place = folder / "data" / suite / task
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{split}.parquet").touch()
                (place.parent / f"{split}.parquet").touch()
    (folder / "policy.yaml").write_text("{cola: 0.25, rte: 0.75}\n")
    return folder


def checked(block: Block, folder: Path) -> None:
    """Read a YAML block as what it is: a grid, a task file, or a run file that may lack some sections."""
    sections = yaml.safe_load(block.text)
    file = folder / f"{block.page.stem}-{block.line}.yaml"
    if "grow" in sections:
        file.write_text(block.text, encoding="utf-8")
        tasks = find_suite("glue", folder / "data", ["cola", "rte", "mrpc", "stsb"]).tasks
        host = Host(folder, {task.name: task for task in tasks}, build_method("ca_mtl"), 96)
        load_task_file(file, [], host)
        return
    if set(sections) <= set(GRID_KEYS):
        base = "" if {"base", "run"} & set(sections) else "base: quickstart\n"
        (folder / "run.yaml").write_text(preset_text("quickstart"), encoding="utf-8")
        check_claims(read_grid(base + block.text, str(file), folder))
        return
    assert set(sections) <= set(SECTIONS), f"{block}: no part of a run file"
    lacking = {"encoder": "encoder: random:bert-tiny\n", "tasks": "tasks: {suite: swatch}\n"}
    for section, line in lacking.items():
        if section not in sections and "preset" not in sections:
            block = Block(block.page, block.line, block.language, line + block.text)
    file.write_text(block.text, encoding="utf-8")
    load_run(file)


@pytest.mark.parametrize("block", blocks("yaml"), ids=ids)
def test_yaml_is_read_by_the_real_reader(block, data, monkeypatch):
    monkeypatch.chdir(data)
    checked(block, data)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=ids)
def test_the_examples_are_read_by_the_real_reader(file, data, monkeypatch):
    monkeypatch.chdir(data)
    checked(Block(file, 0, "yaml", file.read_text(encoding="utf-8")), data)


def test_json_parses():
    """A block is one value, or one per line."""
    every = blocks("json")
    assert every
    for block in every:
        try:
            json.loads(block.text)
        except json.JSONDecodeError:
            assert [json.loads(line) for line in block.text.splitlines()], str(block)


def test_the_requests_of_a_page_are_read_by_the_real_reader(tmp_path):
    (block,) = blocks("json", pages=[DOCS / "kinds.md"])
    file = tmp_path / "requests.jsonl"
    file.write_text(block.text, encoding="utf-8")
    labels = ("no", "yes")
    tasks = [Task("cola", labels=labels), Task("rte", texts=("a", "b"), labels=labels)]
    requests = list(RequestReader(tasks, Asked()).requests(stream_lines(file, "utf-8", json_rows)))
    assert [(request.inputs[0], request.wrong) for request in requests] == [(0, None), (1, None)]


OPTIONAL = ("adapters", "datasets", "pandas", "peft", "sentence_transformers")
"""Packages that pages import and weft does not need."""


def needs(block: Block) -> None:
    """Skip a block whose optional packages are not installed."""
    for name in OPTIONAL:
        if re.search(rf"^(import|from) {name}\b", block.text, re.M):
            pytest.importorskip(name)


@pytest.mark.parametrize("block", blocks("python"), ids=ids)
def test_python_compiles_and_its_imports_exist(block):
    tree = ast.parse(block.text)
    needs(block)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(block), "exec"), {})


MODEL = """
import weft
pair = ("a", "b")
one = [weft.Task("cola", labels=("no", "yes")), weft.Task("sst2", labels=("bad", "good"))]
two = [weft.Task(name, texts=pair, labels=("no", "yes")) for name in ("rte", "mrpc")]
model = weft.Model("minilm", [*one, *two], method="lora")
"""
REVIEWS = """
from pathlib import Path
rows = "".join(f"Film {i} is fine.,good\\nFilm {i} is dull.,bad\\n" for i in range(20))
for name in ("reviews.csv", "reviews.dev.csv", "train.txt"):
    Path(name).write_text("text,sentiment\\n" + rows)
"""
BEFORE = {
    "performance.md": MODEL,
    "kinds.md": MODEL,
    "splits.md": "import weft\n(task,) = weft.load_suite('swatch', only=['sentiment'])\n",
    "submitting.md": "",
    "predicting.md": MODEL + "open('reviews.txt', 'w').write('A fine film.\\nA dull film.\\n')\n",
    "your-own-data.md": MODEL + REVIEWS,
}
"""What each page's Python needs to run; the others load other people's checkpoints."""


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.page.name in BEFORE], ids=ids)
def test_short_python_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    needs(block)
    scope: dict[str, object] = {}
    exec(BEFORE[block.page.name], scope)
    exec(compile(block.text, str(block), "exec"), scope)


# the others are scripts that read an export: tests/interop/onnx/test_examples.py runs them
@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("[!o]*.py")), ids=ids)
def test_the_examples_in_python_run(file, capsys):
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {})
    assert "the encoder has 22,713,216 parameters" in capsys.readouterr().out


def test_a_list_of_tasks_needs_names(data, monkeypatch):
    """The check itself: `- scitail: {…}` in a list is refused by the reader, and would be in a page."""
    monkeypatch.chdir(data)
    wrong = Block(
        DOCS / "x.md", 1, "yaml", "tasks:\n  - scitail: {labels: [a, b], train: a.csv, validation: a.csv}\n"
    )
    with pytest.raises(Exception, match="needs the key 'name'"):
        checked(wrong, data)
