"""The presets of the papers: their settings, other tasks with them, and the tables of multitask LoRA."""

from __future__ import annotations

import pytest
import yaml

from tests.support.tiny_run import write_rows
from weft.cli import run as weft_cli
from weft.config import load_run, preset_names
from weft.config.build import counted_model
from weft.errors import WeftError
from weft.model.accounting.storage import storage
from weft.training.run.epochs import with_steps

PAPERS = ("pals", "ca_mtl", "morris", "multitask_lora")
MSE = "tasks.heads={sts: {compare: head}}"
ROWS = {
    "baseline 1": ["method=frozen", "train.lr=1e-3", "train.conflict=null", MSE],
    "baseline 2": ["method=full", MSE],
    "baseline 3": ["method=full"],
    "baseline 4": ["method=separate", "train.conflict=null"],
    "LoRA 1": ["method.share=task", "train.conflict=null", MSE],
    "LoRA 2": ["method.share=task", "train.conflict=null"],
    "LoRA 3": [MSE],
    "LoRA 4": [],
}
"""The rows of multitask LoRA's Tables 1 to 3, as overrides of its preset."""
PRINTED = {
    "baseline 1": (1.78, 111.78),
    "baseline 2": (111.78, 111.78),
    "baseline 3": (111.78, 111.78),
    "baseline 4": (331.78, 331.78),
    "LoRA 1": (5.10, 115.10),
    "LoRA 2": (5.10, 115.10),
    "LoRA 3": (2.89, 112.89),  # bundled: 115.10 is printed, a mistake
    "LoRA 4": (2.89, 112.89),
}
"""Table 3: millions of parameters, incremental and bundled."""


@pytest.fixture(scope="module")
def cs224n(tmp_path_factory):
    """The course's files, a few rows each, as it hands them out."""
    root = tmp_path_factory.mktemp("cs224n")
    texts = {
        "ids-sst": "id\tsentence\tsentiment\n" + "".join(f"{i}\tgood film {i}\t{i % 5}\n" for i in range(20)),
        "quora": "id\tsentence1\tsentence2\tis_duplicate\n"
        + "".join(f"{i}\twhy {i}\thow {i}\t{i % 2}.0\n" for i in range(40)),
        "sts": "id\tsentence1\tsentence2\tsimilarity\n"
        + "".join(f"{i}\ta cat {i}\ta dog {i}\t{i % 11 / 2}\n" for i in range(16)),
    }
    (root / "cs224n").mkdir()
    for name, text in texts.items():
        for split in ("train", "dev"):
            (root / "cs224n" / f"{name}-{split}.csv").write_text(text)
    return root


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    """The nine tasks of GLUE, one row each: enough to check a run file."""
    root = tmp_path_factory.mktemp("glue")
    for task in ("cola", "mnli", "rte", "wnli", "qqp", "stsb", "sst2", "qnli", "mrpc"):
        for split in ("train", "validation"):
            (root / "glue" / task).mkdir(parents=True, exist_ok=True)
            write_rows(root / "glue" / task / f"{split}.jsonl", [{"sentence": "x", "label": 0}])
    return root


def paper_run(name, glue, cs224n, *overrides):
    root = cs224n if name == "multitask_lora" else glue
    return load_run(name, [f"tasks.root={root}", *overrides])


@pytest.mark.parametrize("name", PAPERS)
def test_each_paper_has_a_preset_with_random_heads(name, glue, cs224n):
    assert name in preset_names()
    run = paper_run(name, glue, cs224n)
    assert run.heads.start == "random"
    assert not run.training.group_by_length
    assert run.training.evaluate_rows is None
    assert run.resolved["train"].get("epochs") == {"pals": 25, "ca_mtl": 5, "multitask_lora": 10}.get(name)


def test_the_optimizers_of_the_papers(glue, cs224n):
    keys = ("optimizer", "lr", "betas", "eps", "warmup", "schedule", "weight_decay", "clip", "absent")
    settings = {
        name: [getattr(paper_run(name, glue, cs224n).training, key) for key in keys] for name in PAPERS
    }
    betas = (0.9, 0.999)
    assert settings == {
        "pals": ["bert_adam", 2e-5, betas, 1e-6, 0.1, "linear", 0.01, 1.0, "drift"],
        "ca_mtl": ["adamw", 2e-5, betas, 1e-8, 0.1, "linear", 0.0, 1.0, "still"],
        "morris": ["adamw", 4e-4, betas, 1e-8, 0.06, "linear", 0.1, 1.0, "still"],
        "multitask_lora": ["adamw", 1e-5, betas, 1e-6, 0.0, "constant", 0.0, None, "still"],
    }


def test_regression_targets_as_in_the_papers(glue, cs224n):
    """Raw 0 to 5 in CA-MTL and MORRIS, label/5 in PALs; multitask LoRA: cosine, or a head on 0 to 5."""
    sts = {
        name: next(t for t in paper_run(name, glue, cs224n).tasks if t.name in ("stsb", "sts"))
        for name in PAPERS
    }
    assert {name: task.target(2.5) for name, task in sts.items()} == {
        "pals": 0.5,
        "ca_mtl": 2.5,
        "morris": 2.5,
        "multitask_lora": 0.5,
    }
    head = paper_run("multitask_lora", glue, cs224n, MSE).tasks[2]
    assert (head.target(2.5), head.head) == (2.5, "similarity-1-apart-head-2x384-cls")


def test_a_preset_goes_with_other_tasks(tmp_path, glue):
    """Tasks of the file replace the preset's suite; settings of a suite change it."""
    write_rows(tmp_path / "a.jsonl", [{"text": "x", "label": "no"}])
    (tmp_path / "mine.yaml").write_text(
        "preset: ca_mtl\nencoder: minilm\nmethod: lora\n"
        "tasks:\n  a: {labels: ['no', 'yes'], train: a.jsonl, validation: a.jsonl}\n"
        "  b: {labels: ['no', 'yes'], train: a.jsonl, validation: a.jsonl}\n"
        "train: {steps: 9}\n"
    )
    run = load_run(tmp_path / "mine.yaml")
    assert [task.name for task in run.tasks] == ["a", "b"]
    assert (run.training.steps, run.training.epochs, run.training.weight_decay) == (9, None, 0.0)
    (tmp_path / "suite.yaml").write_text(f"preset: ca_mtl\ntasks: {{root: '{glue}', only: [cola, rte]}}\n")
    run = load_run(tmp_path / "suite.yaml")
    assert [task.name for task in run.tasks] == ["cola", "rte"]
    assert run.training.sampler["use"] == "mt_uncertainty"


def test_pals_chooses_by_the_average_of_its_paper(tmp_path, glue):
    assert load_run("pals", [f"tasks.root={glue}"]).training.best == "pals_dev"
    fewer = [f"tasks.root={glue}", "tasks.only=[cola, rte]"]
    with pytest.raises(WeftError, match=r"does not have mnli accuracy.*: train\.best=average"):
        load_run("pals", fewer)
    assert load_run("pals", [*fewer, "train.best=average"]).training.best == "average"
    (tmp_path / "mine.yaml").write_text("preset: pals\nencoder: minilm\ntasks: {suite: swatch}\n")
    assert load_run(tmp_path / "mine.yaml").training.best == "average"  # other tasks, another choice


def test_a_preset_without_data_says_what_is_missing():
    with pytest.raises(WeftError, match=r"suite 'glue' needs 'root'|not on the hub"):
        load_run("pals", ["tasks.root=null"])


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_storage_of_multitask_lora(row, cs224n):
    """Table 3 from the preset alone, its unused head included, to a unit of the last digit."""
    run = load_run("multitask_lora", [f"tasks.root={cs224n}", "encoder=random:bert-base", *ROWS[row]])
    counted = storage(counted_model(run))
    paper = counted["paper"]
    assert paper is not None
    millions = [paper[key]["parameters"] / 1e6 for key in ("incremental", "bundled")]
    assert millions == pytest.approx(PRINTED[row], abs=0.012)
    by_cosine = MSE not in ROWS[row]
    assert paper["unused_heads"]["parameters"] == (1536 * 384 + 384 + 385 if by_cosine else 0)
    # ours beside it: no head that nothing uses
    assert counted["tasks"]["sts"]["head"]["parameters"] == (0 if by_cosine else 590_593)


def test_storage_of_a_run_file_is_printed_before_training(cs224n, capsys):
    arguments = ["show", "storage", "multitask_lora", f"tasks.root={cs224n}", "encoder=random:bert-base"]
    assert weft_cli(arguments) == 0
    printed = capsys.readouterr().out
    assert "2,291,335" in printed
    assert "2.88M" in printed
    assert "590,593 parameters of heads that multitask LoRA keeps unused" in printed
    assert weft_cli(["show", "storage", "no.yaml"]) == 2
    assert "there is no run file 'no.yaml'" in capsys.readouterr().err


@pytest.mark.usefixtures("token_cache")
@pytest.mark.parametrize("row", ["LoRA 1", "LoRA 4"])
def test_rows_of_multitask_lora_train(row, cs224n, tmp_path):
    """One step each on a tiny random encoder, from the preset and overrides alone."""
    small = [
        "encoder=random:bert-tiny@minilm",
        "train.steps=1",
        "train.max_length=16",
        "train.baselines=false",
    ]
    out = tmp_path / "run"
    arguments = ["train", "multitask_lora", f"tasks.root={cs224n}", *small, *ROWS[row], "--out", str(out)]
    assert weft_cli(arguments) == 0
    assert yaml.safe_load((out / "run.yaml").read_text())["heads"]["start"] == "random"
    assert (out / "bundle" / "tasks" / "sts.safetensors").is_file()


def test_the_epochs_of_multitask_lora_are_passes_over_quora(cs224n):
    run = load_run("multitask_lora", [f"tasks.root={cs224n}"])
    sizes = [8544, 141_506, 6040]
    assert with_steps(run.training, ["sst", "quora", "sts"], sizes).steps == 176_883
