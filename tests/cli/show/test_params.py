"""`weft show params`: one model, and one table over methods (PALs, Table 1; MORRIS, Table 2)."""

from __future__ import annotations

import json

import pytest

from tests.support.tiny_run import assert_refused
from weft import cli


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Eight tasks on BERT-base, as in PALs; nothing is loaded."""
    path = tmp_path_factory.mktemp("params") / "run.yaml"
    tasks = "\n".join(f"  t{n}: {{labels: [a, b], train: none.csv}}" for n in range(8))
    path.write_text(f"encoder: random:bert-base\nmethod: morris\ntasks:\n{tasks}\n")
    return str(path)


def said(capsys, *arguments):
    capsys.readouterr()
    code = cli.run(["show", "params", *arguments])
    return code, capsys.readouterr()


def test_morris_counts_nine_tasks_and_ours_is_beside_it(file, capsys):
    code, told = said(capsys, file)
    assert code == 0
    lines = told.out.splitlines()
    assert "trained per task: 0.3089% of the encoder" in lines
    assert lines[-1].startswith("as the paper counts: 1.0246, 0.2735% (")
    assert "for 9 tasks, as it counts, and not for the 8 of this model" in lines[-1]


def test_one_table_over_methods(file, capsys):
    methods = "full, top_layer, pals, {use: pals, d_s: 84, share: none}, low_rank, lora"
    code, told = said(capsys, file, "--methods", methods)
    assert code == 0
    rows = [line.split() for line in told.out.splitlines()]
    assert ["full", "0", "0", "1.0000", "12.5000%", "-", "-"] in rows
    assert ["top_layer", "0", "7,087,872", "1.5179", "18.9740%", "1.66", "-"] in rows
    assert ["pals", "0", "1,819,836", "1.1330", "14.1622%", "1.13", "-"] in rows
    settings = ["pals", "(d_s", "84,", "share", "none)"]
    assert [*settings, "0", "1,815,552", "1.1327", "14.1583%", "1.13", "-"] in rows
    assert ["low_rank", "0", "1,853,616", "1.1354", "14.1931%", "1.13", "-"] in rows
    assert ["lora", "0", "294,912", "1.0215", "0.2694%", "1.024", "0.268%"] in rows
    assert "paper of pals, pals (d_s 84, share none), low_rank: Table 3 prints 1.13x" in told.out
    assert "…" not in told.out


def test_json_has_a_ledger_for_each(file, capsys):
    code, told = said(capsys, file, "--methods", "lora,[lora, bitfit]", "--basis", "110M", "--json")
    assert code == 0
    ledgers = json.loads(told.out)
    assert list(ledgers) == ["lora", "lora + bitfit"]
    assert ledgers["lora"]["per_task"]["t0"] == 294_912
    assert ledgers["lora + bitfit"]["per_task"]["t0"] == 294_912 + 102_912
    assert ledgers["lora"]["paper"]["tasks"] == 8  # a requested basis is for the model's own tasks


CALLS = {
    "unknown": ("lora,plas", "--methods: method 'plas' does not exist; did you mean 'pals'"),
    "twice": ("lora,lora", "--methods: lora is listed twice; leave one out"),
    "empty": (" ", "--methods: expected names of methods"),
    "not YAML": ("{use: lora", "cannot be read as YAML"),
    "setting": ("{use: lora, rnk: 3}", "rnk"),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls(file, capsys, case):
    methods, message = CALLS[case]
    assert_refused(*said(capsys, file, "--methods", methods), [message])
