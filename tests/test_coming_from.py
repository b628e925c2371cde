"""The pages for readers of other libraries: their examples run, and both sides agree where they can.

weft's side always runs. PEFT's and sentence-transformers' run where these are installed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

import weft
from tests.support.pages import Block, blocks
from tests.support.paths import ROOT
from weft.cli.app import run as command

DOCS = ROOT / "docs"
NAMED = "sentence-transformers/all-MiniLM-L6-v2"
"""The encoder as the other libraries name it; weft's `minilm` has its files."""


def python_of(page: str, *words: str) -> list[Block]:
    """The blocks of a page in Python that have one of these words."""
    return [b for b in blocks("python", pages=[DOCS / page]) if any(word in b.text for word in words)]


def run(block: Block) -> dict:
    """Run a block as it stands, except that the encoder comes from a folder, and return its names."""
    folder = str(weft.load_encoder("minilm").source) if NAMED in block.text else ""
    scope: dict = {}
    exec(compile(block.text.replace(NAMED, folder), str(block), "exec"), scope)
    return scope


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_peft(capsys):
    pytest.importorskip("peft")
    theirs, ours = (run(*python_of("coming-from-peft.md", word)) for word in ("from peft", "import weft"))
    counts = {
        name: sum(p.numel() for key, p in theirs["model"].named_parameters() if f".{name}." in key)
        for name in ("sentiment", "topic")
    }
    assert counts == ours["model"].ledger()["per_task"] == {"sentiment": 73_728, "topic": 73_728}
    assert "73,728" in (DOCS / "coming-from-peft.md").read_text(encoding="utf-8")
    assert [answer["task"] for answer in ours["answers"]] == ["sentiment", "topic"]
    # the frozen encoders are the same one: without adapters both give the same hidden states
    batch = ours["model"].tokenizer(["A fine film."], return_tensors="pt")
    with torch.no_grad(), theirs["model"].disable_adapter():
        hidden = theirs["model"].eval()(**batch).last_hidden_state
    vector = ours["model"].embed("A fine film.")
    torch.testing.assert_close(hidden.mean(1)[0], vector, atol=1e-5, rtol=0)
    # and a task travels as a file
    assert (
        command(["export", "runs/two", "--to", "peft", "--task", "sentiment", "--out", "peft/sentiment"]) == 0
    )
    from peft import PeftModel

    plain = weft.load_encoder("minilm").model
    loaded = PeftModel.from_pretrained(plain, "peft/sentiment").eval()
    with torch.no_grad():
        hidden = loaded(**batch).last_hidden_state
    vector = ours["model"].embed("A fine film.", task="sentiment")
    torch.testing.assert_close(hidden.mean(1)[0], vector, atol=1e-5, rtol=0)


def test_adapters():
    ours = run(*python_of("coming-from-adapters.md", "import weft"))
    width, size, layers = 384, 24, 6
    # two bottlenecks per layer, as DoubleSeqBnConfig has: W_down, b_down, W_up, b_up
    assert ours["model"].ledger()["per_task"]["topic"] == layers * 2 * (2 * width * size + width + size)
    assert Path("bundles/two/tasks/sentiment.safetensors").is_file()


def test_sentence_transformers():
    pytest.importorskip("sentence_transformers")
    theirs = run(*python_of("coming-from-sentence-transformers.md", "encoder.encode"))
    ours = run(*python_of("coming-from-sentence-transformers.md", "import weft"))
    vectors = torch.from_numpy(theirs["vectors"])
    assert vectors.shape == ours["vectors"].shape == (2, 384)
    torch.testing.assert_close(vectors, ours["vectors"], atol=1e-5, rtol=0)
    value = ours["model"].predict("near", ("It rains.", "It is wet outside."))["value"]
    assert (ours["tuned"][0] @ ours["tuned"][1]).item() * 5 == pytest.approx(value, abs=1e-3)
    # a task as a plain encoder, which sentence-transformers reads
    from sentence_transformers import SentenceTransformer

    ours["model"].merge("near").save_pretrained("merged")
    merged = SentenceTransformer("merged", device="cpu")
    vectors = merged.encode(["It rains.", "It is wet outside."], normalize_embeddings=True)
    torch.testing.assert_close(torch.from_numpy(vectors), ours["tuned"], atol=1e-5, rtol=0)


def test_the_losses_of_similarity_are_the_same():
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer, losses

    rows = [
        {"a": "It rains.", "b": "It is wet outside.", "score": 4.2},
        {"a": "It rains.", "b": "The cat sleeps.", "score": 0.3},
    ]
    encoder = SentenceTransformer(str(weft.load_encoder("minilm").source), device="cpu").eval()
    features = [encoder.tokenize([row[side] for row in rows]) for side in ("a", "b")]
    labels = torch.tensor([row["score"] / 5 for row in rows])
    theirs = losses.CosineSimilarityLoss(encoder)(features, labels).item()
    task = weft.Task("near", "similarity", texts=["a", "b"], label="score", range=(0, 5))
    model = weft.Model("minilm", [task], "frozen").eval()
    batch = model.tokenizer(
        [row[side] for row in rows for side in ("a", "b")], padding=True, return_tensors="pt"
    )
    example = torch.tensor([0, 0, 1, 1])  # two rows, the two texts, per example
    with torch.no_grad():
        output = model.run(**batch, example=example)
        targets = model.collate_labels([row["score"] for row in rows], output.task, example)
        ours = model.loss(output, targets).item()
    assert ours == pytest.approx(theirs, abs=1e-5)


CONLLU = """1\tI\tI\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tchoose\tchoose\tVERB\t_\t_\t0\troot\t_\t_
3\tyou\tyou\tPRON\t_\t_\t2\tobj\t_\t_
4\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tThe\tthe\tDET\t_\t_\t3\tdet\t_\t_
2\told\told\tADJ\t_\t_\t3\tamod\t_\t_
3\tdog\tdog\tNOUN\t_\t_\t4\tnsubj\t_\t_
4\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_machamp(capsys):
    """The run file of the page, on files in the form that the configuration of MaChAmp names."""
    page = DOCS / "coming-from-machamp.md"
    (configuration,) = blocks("json", pages=[page])
    (run_file,) = blocks("yaml", pages=[page])
    theirs, ours = json.loads(configuration.text), yaml.safe_load(run_file.text)
    assert {name for data in theirs.values() for name in data["tasks"]} == set(ours["tasks"])
    # the same files and the same columns on both sides
    tagging, entailment = theirs["POS"], theirs["RTE"]
    source = ours["tasks"]["upos"]["train"]
    assert (source["path"], source["options"]) == (
        tagging["train_data_path"],
        {"word": tagging["word_idx"], "tag": tagging["tasks"]["upos"]["column_idx"]},
    )
    header = ours["tasks"]["rte"]["train"]["options"]["header"]
    assert [header[index] for index in entailment["sent_idxs"]] == ours["tasks"]["rte"]["texts"]
    assert header[entailment["tasks"]["rte"]["column_idx"]] == "label"
    for data in theirs.values():
        for key in ("train_data_path", "dev_data_path"):
            rows = "It rains.\tIt is wet.\tentailment\nIt rains.\tIt is dry.\tnot_entailment\n"
            Path(data[key]).write_text((CONLLU if "word_idx" in data else rows) * 6, encoding="utf-8")
    Path("run.yaml").write_text(run_file.text, encoding="utf-8")
    settings = ["train.epochs=null", "train.steps=2", "train.batch_size=4", "train.baselines=false"]
    assert command(["train", "run.yaml", *settings, "--out", "runs/both", "--quiet"]) == 0
    Path("new.jsonl").write_text('{"task": "upos", "text": "I choose you"}\n', encoding="utf-8")
    capsys.readouterr()
    assert command(["predict", "runs/both", "new.jsonl"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[0])["tags"]) == 3


@pytest.mark.parametrize("name", ["peft", "adapters", "machamp", "sentence-transformers"])
def test_a_page_says_what_weft_lacks(name):
    text = (DOCS / f"coming-from-{name}.md").read_text(encoding="utf-8")
    lacking = text.partition("and weft does not\n")[2].split("\n## ")[0]
    assert lacking.count("\n- ") >= 4
