"""Bundles trained apart become one, each task as it was; and the command."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest
import torch
import yaml

import weft
from tests.support.apart import BOTH, LORA, A, B, C, D, assert_same, close, digest, logits, said
from tests.support.more import some_of
from tests.support.tiny import TASKS, batch, scramble, tiny
from tests.support.tiny_run import write_run
from weft.adapters.bias import BiasAdapter
from weft.adapters.lora import LoraAdapter
from weft.bundle.assemble import assemble
from weft.bundle.assemble_morris import assemble_morris
from weft.errors import WeftError
from weft.methods import METHODS

ALONE = [
    LORA,
    BOTH,
    "bitfit",
    "frozen",
    "houlsby",
    "task_norm",
    {"use": "pals", "d_s": 12, "train_encoder": "none"},
    {"use": "lhuc", "train_encoder": "none"},
    "separate",
    {"use": "lora", "l0": True},
    ["lora", {"use": "bitfit", "biases": "dense"}],
]


@pytest.mark.parametrize("method", some_of(ALONE, 5), ids=str)
def test_each_task_is_as_it_was(method, make, tmp_path):
    bundles = [make("one", [A], method), make("two", [B, C], method), make("three", [D], method)]
    done = assemble(bundles, tmp_path / "out")
    assert (done.tasks, done.notes) == (("a", "b", "c", "d"), ())
    assert_same(bundles, tmp_path / "out")
    for bundle in bundles:
        for file in (bundle / "tasks").iterdir():
            assert digest(file) == digest(tmp_path / "out" / "tasks" / file.name)


def test_mixed_rows_of_tasks_trained_apart(make, tmp_path):
    bundles = [make(t.name, [t], BOTH) for t in TASKS]
    assemble(bundles, tmp_path / "out")
    whole = weft.load(tmp_path / "out").eval()
    inputs = batch(whole)
    with torch.no_grad():
        mixed = whole.run(**inputs).logits
        for row, task in enumerate(inputs["task"].tolist()):
            alone = weft.load(bundles[task]).eval()
            own = alone.run(
                inputs["input_ids"], inputs["attention_mask"], task=torch.zeros(8, dtype=torch.long)
            )
            assert torch.allclose(mixed[row], own.logits[row], atol=1e-5)


def test_runs_folders_and_settings_that_may_differ(make, tmp_path):
    make("one", [A], max_length=20)
    (tmp_path / "run").mkdir()
    (tmp_path / "one").rename(tmp_path / "run" / "bundle")
    two = make("two", [B], max_length=30, head_dropout=0.3)
    done = assemble([tmp_path / "run", two], tmp_path / "out")
    whole = assert_same([tmp_path / "run", two], tmp_path / "out")
    assert (whole.max_length, whole.head_dropout) == (30, 0.3)
    assert "max_length is 20 in" in done.notes[0]
    assert "heads.dropout is 0.1 in" in done.notes[1]
    assert weft.load(tmp_path / "out").predict([("a", "the cat"), ("b", "a dog")])


def test_an_encoder_that_came_along_comes_along(make, tmp_path):
    passed = [make("one", [A], encoder=tiny("bert")), make("two", [B], encoder=tiny("bert"))]
    assert (passed[0] / "encoder").is_dir()
    assemble(passed, tmp_path / "out")
    ranks = [passed[0], make("three", [C], {"use": "lora", "rank": 3}, encoder=tiny("bert"))]
    assemble(ranks, tmp_path / "unified")
    assemble_morris(passed, tmp_path / "morris")
    expected = {bundle: logits(weft.load(bundle), task) for bundle, task in zip(passed, "ab", strict=True)}
    for bundle in (*passed, ranks[1]):
        shutil.move(bundle, tmp_path / f"{bundle.name}-away")
    for out in ("out", "unified", "morris"):
        assert torch.allclose(logits(weft.load(tmp_path / out), "a"), expected[passed[0]], atol=1e-5)


def test_random_encoders(tmp_path):
    for name, task in (("one", A), ("two", B)):
        scramble(weft.Model("random:bert-tiny", [task], LORA, seed=3)).save(tmp_path / name)
    bundles = [tmp_path / "one", tmp_path / "two"]
    assemble(bundles, tmp_path / "out")
    assert_same(bundles, tmp_path / "out")
    scramble(weft.Model("random:bert-tiny", [B], LORA, seed=4)).save(tmp_path / "other")
    with pytest.raises(WeftError, match="a different encoder"):
        assemble([tmp_path / "one", tmp_path / "other"], tmp_path / "no")


@pytest.mark.parametrize("use", ["lora", "lora_bitfit"])
def test_ranks_and_scales_are_unified(use, make, tmp_path):
    bundles = [
        make("one", [A, B], {"use": use, "rank": 2, "alpha": 5.0, "dropout": 0.2}),
        make("two", [C], {"use": use, "rank": 4, "rank_pattern": {"0/query": 6, "1/value": 0, "1/query": 0}}),
        make("three", [D], {"use": use, "rank": 3, "l0": True, "rank_pattern": {"1/query": 0}}),
    ]
    done = assemble(bundles, tmp_path / "out")
    whole = assert_same(bundles, tmp_path / "out", close(1e-6))
    assert done.method == whole.method
    assert (whole.method.rank, whole.method.alpha, whole.method.l0) == (6, None, None)
    assert whole.method.rank_pattern == {"0/value": 4, "1/query": 2, "1/value": 3}
    assert "dropout of the updates" in done.notes[0]
    assert sum(isinstance(adapter, BiasAdapter) for _, adapter in whole.placements) == (
        12 if "bit" in use else 0
    )
    for _, adapter in whole.placements:
        if isinstance(adapter, LoraAdapter):
            assert adapter.get_parameter("A").any(dim=-1).all()  # what is new can be trained
    dead = [
        make("four", [A], {"use": use, "rank_pattern": {"0/query": 0}}),
        make("five", [B], {"use": use, "rank": 9, "rank_pattern": {"0/query": 0}}),
    ]
    assert assemble(dead, tmp_path / "dead").method.rank_pattern == {"0/query": 0}


def test_what_does_not_fit_is_refused(make, tmp_path):
    out = tmp_path / "out"
    one = make("one", [A])
    tiny("roberta").save_pretrained(tmp_path / "roberta")
    cases = [
        (make("other-encoder", [B], encoder=tmp_path / "roberta"), "needs a different encoder than .*one"),
        (make("same-task", [B, A]), "the task 'a' is in two bundles, .*one and .*same-task"),
        (make("other-pool", [B], pool="cls"), "heads differ in pool: 'pooler' in .*one/bundle.json, 'cls'"),
        (
            make("one-for-all", [B], {**LORA, "share": "all"}),
            r"shared.safetensors holds trained weights .*\(8 tensors",
        ),
        (make("groups", [B], {**LORA, "share": {"g": ["b"]}}), "'group:g/adapters.0/query.0.A'"),
        (make("trained", [B], {**LORA, "train_encoder": "norms"}), "share: task, train_encoder: none"),
        (make("full", [B], "full"), "holds trained weights that tasks share"),
        (make("other-method", [B], "bitfit"), "lora in .*one/bundle.json, bitfit in .*other-method"),
        (make("composed", [B], ["lora", "bitfit"]), r"lora\+bitfit in .*train both with the same"),
    ]
    for bundle, message in cases:
        with pytest.raises(WeftError, match=message):
            assemble([one, bundle], out)
    other = [make("x", [A], "houlsby"), make("y", [B], {"use": "houlsby", "size": 3})]
    with pytest.raises(WeftError, match=r"size: \d+ and 3\n  Train both with the same settings$"):
        assemble(other, out)
    two = [make("v", [A], ["lora", "bitfit"]), make("w", [B], [LORA, {"use": "bitfit", "biases": "dense"}])]
    with pytest.raises(
        WeftError, match=r"'lora\+bitfit' has different settings in .*v/bundle.* and "
    ) as wrong:
        assemble(two, out)
    assert "\n  part 1 (lora), rank: 8 and 2\n  part 2 (bitfit), biases: 'all' and 'dense'\n" in str(
        wrong.value
    )
    for few in ([one], []):
        with pytest.raises(WeftError, match="two or more bundles"):
            assemble(few, out)
    with pytest.raises(WeftError, match="holds no bundle"):
        assemble([one, tmp_path / "nowhere"], out)
    assert not out.exists()


def test_where_it_goes(make, tmp_path):
    bundles = [make("one", [A]), make("two", [B])]
    (tmp_path / "mine").mkdir()
    with pytest.raises(WeftError, match="exists and is not a bundle"):
        assemble(bundles, tmp_path / "mine")
    with pytest.raises(WeftError, match="is one of the bundles"):
        assemble(bundles, tmp_path / "two")
    assemble(bundles, tmp_path / "out")
    before = digest(tmp_path / "out" / "bundle.json")
    assemble(bundles, tmp_path / "out")
    assert digest(tmp_path / "out" / "bundle.json") == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_damage_is_named(make, tmp_path):
    bundles = [make("one", [A]), make("two", [B])]
    shutil.copy(bundles[0] / "shared.safetensors", tmp_path / "kept")
    (bundles[0] / "shared.safetensors").write_bytes(b"nonsense")
    with pytest.raises(WeftError, match=r"shared.safetensors is damaged or was replaced"):
        assemble(bundles, tmp_path / "out")
    shutil.copy(tmp_path / "kept", bundles[0] / "shared.safetensors")
    file = bundles[1] / "tasks" / "b.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(WeftError, match=r"b.safetensors is damaged or was replaced"):
        assemble(bundles, tmp_path / "out")


ASSEMBLED = {
    assemble: {*("bitfit", "frozen", "houlsby", "lora", "separate", "task_norm")},
    assemble_morris: {"lora", "lora_bitfit", "morris"},
}
REFUSED = {assemble: {"full", "lora_bitfit_mtl", "morris"}, assemble_morris: set()}


@pytest.mark.parametrize("method", some_of(METHODS, ["frozen", "full", "houlsby", "lora_bitfit", "morris"]))
def test_every_method_is_assembled_or_refused(method, make, tmp_path):
    """None leads to a bundle that does not load, and none ends in a traceback."""
    bundles = [make(task.name, [task], method) for task in (A, B)]
    for put in (assemble, assemble_morris):
        out = tmp_path / put.__name__
        with contextlib.suppress(WeftError):
            put(bundles, out)
        if out.exists():
            assert_same(bundles, out, close(1e-5))
        assert out.exists() or method not in ASSEMBLED[put]
        assert not (out.exists() and method in REFUSED[put])


def test_the_command(make, tmp_path, capsys):
    bundles = [make("one", [A], BOTH, max_length=20), make("two", [B], BOTH)]
    code, told = said(capsys, "assemble", *bundles, "--out", tmp_path / "out", "--json")
    assert code == 0
    found = json.loads(told.out)
    assert (found["bundle"], found["tasks"]) == (str(tmp_path / "out"), ["a", "b"])
    assert found["method"]["use"] == "lora_bitfit"
    assert "note: max_length is 20" in told.err
    code, told = said(capsys, "assemble", *bundles, "--out", tmp_path / "out")
    assert (code, told.out.splitlines()[0]) == (0, "tasks: a, b")
    code, told = said(capsys, "assemble", *bundles, "--out", tmp_path / "m", "--as", "morris", "--rank", 3)
    assert code == 0
    assert "0/query" in told.out
    code, told = said(
        capsys,
        *(
            "assemble",
            *bundles,
            "--out",
            tmp_path / "m",
            "--as",
            "morris",
            "--rank",
            4,
            "--bias-rank",
            1,
            "--json",
        ),
    )
    found = json.loads(told.out)
    assert (code, found["method"]["rank"], found["method"]["bias_rank"]) == (0, 4, 1)
    assert found["weight_error"] < 1e-6 < found["bias_error"] < 1
    assert len(found["errors"]) == 16
    assert found["errors"][0].keys() == {"site", "what", "components", "rank", "relative_error"}
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"task": "a", "text": "the cat"}\n{"task": "b", "text": "a dog"}\n')
    code, told = said(capsys, "predict", tmp_path / "m", rows)
    assert (code, len(told.out.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--as", "moris"], "did you mean 'morris'?"),
        (["--rank", "3"], "--rank 3 belongs to --as morris"),
        (["--bias-rank", "3"], "--bias-rank 3 belongs to --as morris"),
        (["--as", "morris", "--rank", "-1"], "rank: expected greater than 0; found -1"),
        ([], "two or more bundles"),
    ],
)
def test_wrong_calls(arguments, message, make, tmp_path, capsys):
    one = make("one", [A])
    code, told = said(capsys, "assemble", one, "--out", tmp_path / "out", *arguments)
    assert (code, told.out) == (2, "")
    assert message in told.err
    assert "Traceback" not in told.err


def test_tasks_really_trained_apart_score_as_before(tmp_path, monkeypatch, capsys):
    """Three runs, one bundle, the same metrics; rows of other tasks beside them change the rounding."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path = write_run(tmp_path)
    whole = yaml.safe_load(path.read_text())
    for task, settings in whole["tasks"].items():
        alone = tmp_path / f"{task}.yaml"
        alone.write_text(yaml.safe_dump({**whole, "tasks": {task: settings}}))
        assert said(capsys, "train", alone, "--out", tmp_path / task)[0] == 0
    runs = [tmp_path / task for task in whole["tasks"]]
    ways = {"plain": [], "morris": ["--as", "morris", "--rank", 6]}
    for out, more in ways.items():
        assert said(capsys, "assemble", *runs, "--out", tmp_path / out, *more)[0] == 0
        code, told = said(capsys, "evaluate", tmp_path / out, "--tasks", path, "--json")
        assert code == 0
        found = json.loads(told.out)["tasks"]
        for task in whole["tasks"]:
            metrics = json.loads((tmp_path / task / "metrics.json").read_text())["tasks"][task]
            assert found[task] == pytest.approx(metrics, abs=1e-5)
