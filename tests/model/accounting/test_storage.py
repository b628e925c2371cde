"""Storage as multitask LoRA's Table 3 counts it, on the meta device; and the files of a bundle."""

from __future__ import annotations

import json

import pytest

import weft
from tests.support.tiny import TASKS, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.bundle.files import files_of
from weft.cli import run
from weft.core.basis import basis_for, parse_basis
from weft.errors import WeftError
from weft.model.accounting.storage import storage

BERT = 109_482_240
SET = 1_105_920
HEADS = 2 * (2 * 768 + 2) + 5 * 768 + 5
PER_TASK = {"use": "lora", "rank": 20, "sites": "query, key, value"}
POOLER = 768 * 768 + 768
TABLE = (weft.Task("sst", size=5), weft.Task("para", size=2), weft.Task("sts", size=2))


def counted(method, tasks=TABLE, encoder="random:bert-base", basis=None, **settings):
    return storage(weft.Model(encoder, tasks, method, device="meta", **settings), basis)


def scenarios(found):
    return found["incremental"]["parameters"], found["bundled"]["parameters"]


@pytest.mark.parametrize(
    ("method", "incremental", "bundled", "by_paper"),
    [
        ("frozen", HEADS, BERT + HEADS, (HEADS, 110_000_000 + HEADS)),
        ("full", BERT + HEADS, BERT + HEADS, (110_000_000 + HEADS, 110_000_000 + HEADS)),
        ("separate", 3 * BERT + HEADS, 3 * BERT + HEADS, (330_000_000 + HEADS, 330_000_000 + HEADS)),
        (PER_TASK, 3 * SET + HEADS, BERT + 3 * SET + HEADS, (3 * SET + HEADS, 110_000_000 + 3 * SET + HEADS)),
        (
            {**PER_TASK, "share": "all"},
            SET + HEADS,
            BERT + SET + HEADS,
            (SET + HEADS, 110_000_000 + SET + HEADS),
        ),
    ],
    ids=str,
)
def test_the_five_kinds_of_table_3(method, incremental, bundled, by_paper):
    found = counted(method)
    assert scenarios(found) == (incremental, bundled)
    assert scenarios(found["paper"]) == by_paper
    assert found["encoder"] == {"parameters": BERT, "bytes": 4 * BERT}
    for amount in (found["incremental"], found["bundled"], found["paper"]["bundled"]):
        assert amount["bytes"] == 4 * amount["parameters"]


def test_the_printed_table():
    """With heads of the paper's size (1.78 million) its numbers follow, to a unit of the last digit."""
    heads = 1_775_623 - HEADS
    printed = {
        "frozen": (1.78, 111.78),
        "full": (111.78, 111.78),
        "separate": (331.78, 331.78),
        "lora": (5.10, 115.10),
        "shared": (2.89, 112.89),
    }
    methods = {"lora": PER_TASK, "shared": {**PER_TASK, "share": "all"}}
    for name, expected in printed.items():
        paper = counted(methods.get(name, name))["paper"]
        assert tuple(round((n + heads) / 1e6, 2) for n in scenarios(paper)) == pytest.approx(
            expected, abs=0.011
        )


def test_what_is_each_tasks_own():
    found = counted(PER_TASK)
    assert [task["own"]["parameters"] for task in found["tasks"].values()] == [SET] * 3
    assert [task["head"]["parameters"] for task in found["tasks"].values()] == [3845, 1538, 1538]
    assert found["tasks"]["sst"]["total"]["bytes"] == 4 * (SET + 3845)
    assert found["shared"]["parameters"] == found["trained_encoder"]["parameters"] == 0
    shared = counted({**PER_TASK, "share": "all"})
    assert (shared["shared"]["parameters"], shared["tasks"]["sst"]["own"]["parameters"]) == (SET, 0)


@pytest.mark.parametrize(
    "method",
    [
        PER_TASK,
        {**PER_TASK, "share": "all"},
        {**PER_TASK, "share": {"pairs": ["para", "sts"]}},
        "frozen",
        "full",
        "separate",
        "pals",
        "morris",
        {"use": "separate", "train_encoder": "layers 6-11"},
        ["lora", {"use": "bitfit", "share": "all"}],
    ],
    ids=str,
)
def test_one_more_task_adds_what_it_says(method):
    before, after = counted(method), counted(method, (*TABLE, weft.Task("more", size=5)))
    for one, two in zip(scenarios(before), scenarios(after), strict=True):
        assert two - one == before["one_more_task"]["total"]["parameters"]
    whole = [method] if isinstance(method, str) else []
    if whole in (["full"], ["separate"]):
        assert before["incremental"] == before["bundled"]
    assert before["incremental"]["parameters"] == (
        before["trained_encoder"]["parameters"]
        + before["shared"]["parameters"]
        + sum(task["total"]["parameters"] for task in before["tasks"].values())
    )


def test_a_part_of_the_encoder_that_trains():
    biases = counted({"use": "full", "train_encoder": "biases"})
    assert scenarios(biases) == (102_912 + HEADS, BERT + HEADS)
    assert scenarios(biases["paper"]) == (102_912 + HEADS, 110_000_000 + HEADS)
    upper = 6 * 7_087_872 + POOLER
    own = counted({"use": "separate", "train_encoder": "layers 6-11"})
    assert scenarios(own) == (3 * upper + HEADS, BERT + 2 * upper + HEADS)
    assert scenarios(own["paper"]) == (3 * upper + HEADS, 110_000_000 + 2 * upper + HEADS)
    both = counted({**PER_TASK, "train_encoder": "norms"})
    assert both["trained_encoder"]["parameters"] == 25 * 2 * 768


def test_a_pooler_that_nothing_reads_does_not_train():
    found = counted("full", pool="cls")
    assert scenarios(found) == (BERT - POOLER + HEADS, BERT + HEADS)
    assert scenarios(found["paper"]) == (110_000_000 + HEADS,) * 2


def test_the_papers_arithmetic_is_for_its_own_encoder():
    assert counted("frozen", encoder="random:minilm")["paper"] is None
    asked = counted("frozen", encoder="random:minilm", basis=23_000_000)["paper"]
    assert asked["basis"] == 23_000_000
    assert scenarios(asked)[1] - scenarios(asked)[0] == 23_000_000
    assert counted("frozen", basis=100)["paper"]["basis"] == 100
    assert basis_for(BERT) == 110_000_000
    assert basis_for(335_000_000) is None


@pytest.mark.parametrize("text", ["110M", "110_000_000", "110000000", "1.1e8", "1.1E8", "110.0M"])
def test_a_basis(text):
    assert parse_basis(text) == 110_000_000


@pytest.mark.parametrize(
    "text", ["", "M", "many", "110m", "0", "-5M", "1.5", "nan", "inf", "1e999999999", "110,000,000"]
)
def test_no_basis(text):
    with pytest.raises(WeftError, match="expected a whole number of parameters, such as 110M"):
        parse_basis(text)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    model = scramble(weft.Model(save_encoder(folder / "encoder"), TASKS, {"use": "lora_bitfit", "rank": 2}))
    model.save(folder / "run" / "bundle")
    return folder / "run" / "bundle"


def test_files(bundle, tmp_path):
    model = weft.load(bundle)
    files = files_of(model, bundle)
    assert [file["what"] for file in files] == [
        "manifest",
        "shared",
        *(f"task {t}" for t in "abcd"),
        "encoder",
    ]
    assert all(file["in_bundle"] for file in files[:-1])
    assert files[-1]["path"] == str(bundle.parents[1] / "encoder" / "model.safetensors")
    assert files[-1]["bytes"] == (bundle.parents[1] / "encoder" / "model.safetensors").stat().st_size
    counted = storage(model)["tasks"]["b"]["total"]["bytes"]
    assert counted < files[3]["bytes"] < counted + 8000  # and a header
    model.save(tmp_path / "along", with_encoder=True)
    inside = files_of(weft.load(tmp_path / "along"), tmp_path / "along")[-1]
    assert (inside["in_bundle"], inside["what"]) == (True, "encoder")
    weft.Model("random:bert-tiny", TASKS, "lora").save(tmp_path / "random")
    drawn = files_of(weft.load(tmp_path / "random"), tmp_path / "random")[-1]
    assert drawn == {"what": "encoder", "path": "random:bert-tiny", "bytes": None, "in_bundle": False}
    weft.Model(tiny("bert"), TASKS, "lora").save(tmp_path / "passed")
    assert files_of(weft.load(tmp_path / "passed"), tmp_path / "passed")[-1]["in_bundle"]


def said(capsys, *arguments):
    capsys.readouterr()
    code = run(["show", "storage", *(str(argument) for argument in arguments)])
    return code, capsys.readouterr()


def test_the_command(bundle, capsys):
    for folder in (bundle, bundle.parent):
        code, told = said(capsys, folder, "--json")
        found = json.loads(told.out)
        assert code == 0
        assert found["paper"] is None
        assert found["incremental"] == storage(weft.load(bundle))["incremental"]
        assert len(found["files"]) == 7
    code, told = said(capsys, bundle)
    assert code == 0
    for text in ("task a", "one more task", "incremental", "bundled", "outside the bundle"):
        assert text in told.out
    assert "for the encoder" not in told.out
    code, told = said(capsys, bundle, "--basis", "1M")
    assert code == 0
    assert "with 1,000,000 for the encoder" in told.out


def test_wrong_calls(bundle, tmp_path, capsys):
    for arguments, message in (
        ((bundle, "--basis", "much"), "basis 'much': expected a whole number"),
        ((tmp_path,), "holds no bundle"),
        ((bundle, "--encoder", tmp_path / "nowhere"), "nowhere"),
    ):
        code, told = said(capsys, *arguments)
        assert (code, told.out) == (2, "")
        assert message in told.err
