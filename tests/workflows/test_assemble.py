"""`weft.assemble`: bundles trained apart become one."""

from __future__ import annotations

import json

import pytest

import weft
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft import cli
from weft.errors import WeftError

ASK = {"cat": ("cat", "the old cat"), "dog": ("dog", "a dog sees")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("assemble")
    encoder = save_encoder(place / "encoder")
    for seed, name in enumerate(ASK):
        task = weft.Task(name, labels=("no", "yes"))
        scramble(weft.Model(encoder, [task], {"use": "lora", "rank": 2}), seed).save(place / name)
    return place


def test_each_task_answers_as_in_its_own_bundle(folder):
    done = weft.assemble([folder / "cat", str(folder / "dog")], folder / "both")
    assert (done.folder, done.tasks) == (folder / "both", ("cat", "dog"))
    both = weft.load(done.folder)
    for name, ask in ASK.items():
        expected = weft.load(folder / name).predict([ask])[0]["probabilities"]
        assert both.predict([ask])[0]["probabilities"] == pytest.approx(expected, abs=1e-6)


def test_as_one_morris(folder, capsys):
    done = weft.assemble([folder / "cat", folder / "dog"], folder / "morris", method="morris", rank=4)
    assert done.method.name == "morris"
    assert done.relative("weight") < 1e-4  # exact: two tasks of rank 2
    capsys.readouterr()
    arguments = ["assemble", str(folder / "cat"), str(folder / "dog"), "--as", "morris", "--rank", "4"]
    assert cli.run([*arguments, "--out", str(folder / "again"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = json.loads(json.dumps(done.as_dict()))
    assert printed | {"bundle": ""} == expected | {"bundle": ""}


@pytest.mark.parametrize(
    ("bundles", "settings", "message"),
    [
        (["cat", "dog"], {"method": "moris"}, "method 'moris'; did you mean 'morris'"),
        (["cat", "dog"], {"rank": 3}, "rank 3 belongs to method 'morris'"),
        (["cat", "dog"], {"bias_rank": 3}, "bias_rank 3 belongs to method 'morris'"),
        (["cat", "dog"], {"density": 0.5}, "density belongs to merge; leave it out, or add merge='ties'"),
        (["cat", "dog"], {"merge": "ties", "method": "morris"}, "cannot be combined with method='morris'"),
        (["cat", "dog"], {"merge": "ties", "bias_rank": 2}, "cannot be combined with bias_rank"),
        (["cat"], {}, "two or more bundles"),
        ("cat", {}, "bundles: expected a list of folders; found 'cat'"),
    ],
)
def test_wrong_calls(folder, bundles, settings, message):
    places = bundles if isinstance(bundles, str) else [folder / name for name in bundles]
    with pytest.raises(WeftError, match=message):
        weft.assemble(places, folder / "wrong", **settings)
    assert not (folder / "wrong").exists()
