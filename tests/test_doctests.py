"""The examples in docstrings run, and print what they show."""

from __future__ import annotations

import doctest
import functools
import importlib
import pkgutil
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weft
from tests.support.tiny_run import save_encoder, write_rows

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL

WORDS = ["likes", "fears"] * 20

GIVEN: dict[str, Any] = {"weft": weft, "np": np, "torch": torch, "nn": nn, "Path": Path}
"""What an example may use without importing it."""

NOT_RUN = {
    "weft.bundle.load.load": "its second line reads from the hub; tests/bundle/test_from_hub.py does",
    "weft.experiments.compare.compare": "trains six runs; examples/notebooks/compare-methods.ipynb does",
    "weft.experiments.statistics": "shows where rows would stand",
    "weft.hub.push.push": "writes to the hub; tests/hub does, to a stand-in",
    "weft.inference.warm_up.capture": "needs a GPU",
    "weft.interop.hf.export.export_hf": "needs a head that fits; tests/interop/hf has some",
    "weft.interop.onnx.export.export_onnx": "exports a trained model; tests/interop does",
    "weft.interop.onnx.runtime.OnnxModel": "exports a trained model; tests/interop does",
    "weft.interop.sentence_transformers.export.export_sentence_transformers": "as above",
    "weft.serving.http.application.app": "runs a server; tests/serving does",
    "weft.serving.client.Client": "needs a server; tests/serving/test_client.py has one",
    "weft.workflows.train.train_run": "trains the quickstart; `make quickstart` does",
}
"""Examples that cannot run here, and why."""

TRAINED = {
    "weft.config.run_file.load_run",
    "weft.facade.ModelFacade.evaluate",
    "weft.facade.ModelFacade.from_pretrained",
    "weft.facade.ModelFacade.predict",
    "weft.inference.embed.embed",
    "weft.inference.predict.predict",
    "weft.inference.stream.predict_stream",
    "weft.reporting.report.report",
    "weft.serving",
    "weft.workflows.assemble.assemble",
    "weft.workflows.check.check",
    "weft.workflows.evaluate.evaluate",
    "weft.workflows.new.new.new_run_file",
}
"""Examples that use a trained model or files: they run in a folder that has them, and their numbers, which
are those of another model, are not compared."""

REPLACED = {
    "weft.config.run_file.load_run": ["runs/first"],
    "weft.workflows.new.new.new_run_file": ["run.yaml"],
}
"""What an example writes, and must not be there before."""

BEFORE = {
    "weft.data.drafting.kinds.guess_kind": "from weft.data.drafting.column import profile",
    "weft.errors.words": "folder = 'runs/a'",
    "weft.evaluation.selection.reported_metrics": """
for name in ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"):
    Path("data/mnli").mkdir(parents=True, exist_ok=True)
    Path(f"data/mnli/{name}.parquet").touch()
""",
    "weft.model.accounting.ledger.Ledger": """
tasks = [weft.Task(name, labels=("no", "yes")) for name in ("cola", "rte")]
""",
    "weft.tasks.task.Task": """
df = dev = [{"text": "Fine.", "sentiment": "good"}, {"text": "Dull.", "sentiment": "bad"}]
""",
    "weft.utils.out_of_memory.out_of_memory_explained": "step = lambda: None",
}
"""What an example takes as given."""


@functools.cache
def examples() -> dict[str, doctest.DocTest]:
    """Every docstring with an example, by name; what modules import from each other counts once."""
    found = {}
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if module.name.endswith(("__main__", "_triton")):  # runs the command line; needs Triton
            continue
        loaded = importlib.import_module(module.name)
        for test in doctest.DocTestFinder().find(loaded, extraglobs=dict(GIVEN)):
            if test.examples:
                found[test.name] = test
    return found


def run(test: doctest.DocTest, compared: bool = True) -> None:
    """Run the examples of a docstring; with `compared=False` what they print is not compared."""
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    if not compared:
        runner.report_failure = lambda *arguments: None  # type: ignore[method-assign]
    exec(BEFORE.get(test.name, ""), test.globs)
    for example in test.examples:
        example.source = example.source.replace("train.steps=500", "train.steps=2")
    runner.run(test, out=printed.append, clear_globs=False)
    wrong = [text for text in printed if compared or "Exception raised" in text]
    assert not wrong, "".join(wrong)


def test_examples_print_what_they_show(tmp_path, monkeypatch):
    """One test for all of them: importing every module takes longer than most examples."""
    monkeypatch.chdir(tmp_path)
    exact = [test for name, test in examples().items() if name not in (*NOT_RUN, *TRAINED)]
    assert len(exact) > 25
    wrong = []
    for test in exact:
        try:
            run(test)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run file, its data, three trained runs and a bundle, all tiny."""
    folder = tmp_path_factory.mktemp("examples")
    save_encoder(folder / "encoder")
    pairs = [
        {"a": "the cat sees", "b": f"the dog sees {word}", "label": i % 2} for i, word in enumerate(WORDS)
    ]
    texts = [{"text": f"the cat {word}", "label": "good" if i % 2 else "bad"} for i, word in enumerate(WORDS)]
    write_rows(folder / "rte.jsonl", pairs)
    write_rows(folder / "texts.jsonl", texts)
    (folder / "reviews.csv").write_text("text,stars\n" + "".join(f"A film {i}.,{i % 5}\n" for i in range(60)))
    (folder / "reviews.txt").write_text("A fine film.\nA dull film.\n")
    tasks = {
        "rte": "{texts: [a, b], labels: ['0', '1'], train: rte.jsonl, validation: rte.jsonl}",
        "cola": "{labels: [bad, good], train: texts.jsonl, validation: texts.jsonl}",
    }
    settings = "train: {steps: 2, batch_size: 4, max_length: 16, baselines: false}\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("cola", "rte"):
            entries = [
                "encoder: encoder",
                "method: {use: lora, rank: 2}",
                f"tasks: {{{name}: {tasks[name]}}}",
            ]
            Path("run.yaml").write_text("\n".join([*entries, settings]))
            run_file = weft.load_run("run.yaml")
            weft.train(run_file.build_model(), run_file.training, out=f"runs/{name}", progress=False)
        shutil.copytree("runs/rte", "runs/first")
        shutil.copytree("runs/rte/bundle", "bundles/first")
    return folder


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_examples_with_a_model_run(name, trained, tmp_path, monkeypatch):
    if name == "weft.serving" and find_spec("starlette") is None:
        pytest.skip("needs the extra serve")
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)  # what an example writes is its own
    monkeypatch.chdir(tmp_path)
    for written in REPLACED.get(name, ()):  # by the example itself
        shutil.rmtree(written) if Path(written).is_dir() else Path(written).unlink()
    test = examples()[name]
    names = {"cola": ["text"], "rte": ["a", "b"], "reviews": ["text"], "sentiment": ["text"]}
    tasks = [weft.Task(task, texts=texts, labels=("bad", "good")) for task, texts in names.items()]
    test.globs["model"] = weft.Model("encoder", tasks, "lora", max_length=16)
    if name.endswith("evaluate"):
        test.globs["model"] = weft.load("runs/first")
    run(test, compared=False)


def test_what_is_not_run_exists():
    assert set(NOT_RUN) | TRAINED | set(BEFORE) <= set(examples())


def test_a_wrong_example_is_found():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    with pytest.raises(AssertionError, match="Expected"):
        run(test)
    test = doctest.DocTestParser().get_doctest(">>> 1 / 0\n3\n", {}, "wrong", None, None)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(test, compared=False)
