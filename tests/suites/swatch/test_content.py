"""What the rows are: the same everywhere, as many as stated, different, well formed, without a short cut."""

import hashlib
import json
import math
import re
import subprocess
import sys
import time

import pytest

from weft.errors import WeftError
from weft.suites.swatch import SPLITS, SWATCH, generate, write

TASKS = sorted(SWATCH)

# A change here is a new suite: raise `_VERSION` in generator.py and say so in the commit.
DIGESTS = {
    "acceptability/train": "7bd12bab09bc91b45c397981850162b4228430dcbce91b85069effd44b31f323",
    "acceptability/validation": "9f10db9b02d1358c777d6beb6c1d68e2b81a2b170a6d2b6f28c7040568baf584",
    "acceptability/test": "a8c3eeb5cca36d1c836b173a958b91894adff18a492b993dd0b8557af8c15a83",
    "entailment/train": "dfa80eaef76414043d497c7e4b6cf9d2a0456542a378ecbcedbe02183e3f002d",
    "entailment/validation": "638e1480fa270a969ef00ede4892928b949eec9efc877f2718705fbc5e41e775",
    "entailment/test": "f1e10c4eb049ade4317bcf7bac2447509f0ba0bc25b17b9148c14feb6641a90c",
    "paraphrase/train": "e85518ddeaf7f4b1deb077935cb5f0e68f02bdbc36b7e813b47d5e7aa4ff02b7",
    "paraphrase/validation": "39c46cf91400558deb3d3e4c0cf7d5251fe3ab07ab22e60dd67f30eb747c8b32",
    "paraphrase/test": "4f9093d26b7c91d930a688978edf407640ef39c8d900a582d3f572a834cb6a13",
    "question/train": "a5fd72c71526f12712467af5861b0af97615f4f99b99b8b76cb999316c312449",
    "question/validation": "4fad33b4c5a808660cadd6a7b88b40824cbca66401ddf155b3be8671c34394de",
    "question/test": "56587978e8b1bb970accdeeb44eed6069b30a33f9ef731f1b2e44e963af925c6",
    "sentiment/train": "e1b212e68036edd1601abc904495411d5b5c19713688cbff7a59e7751f4ee8e1",
    "sentiment/validation": "24a23516e0802f287e7499c2de7b70e93c6391cd3507f306d80ab4a9ca0574c4",
    "sentiment/test": "804a1ff64822e8175e4bd51bcdcea5cbd23dd3ea1a9006d906f109c2edacc1ae",
    "similarity/train": "aa22440c96496663c056a5c23d9cc1b54f84b844b53d5e2428095decd442ebd4",
    "similarity/validation": "155ca6dad3233fb9cf88d59a92fbf245012170ed49a0fde67755557c5e4b2f51",
    "similarity/test": "960f829a437c9db7a8d5daf3d61ff09176352b796187f92dee5ea10157d73e8d",
}


def digest(rows: list[dict[str, str | float]]) -> str:
    return hashlib.sha256("".join(json.dumps(row) + "\n" for row in rows).encode()).hexdigest()


def texts(task: str, row: dict[str, str | float]) -> list[str]:
    return [str(row[column]) for column in SWATCH[task].texts]


def correlation(x: list[float], y: list[float]) -> float:
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    spread = math.sqrt(sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y))
    return covariance / spread if spread else 0.0


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_content_is_pinned(task, split):
    assert digest(generate(task, split)) == DIGESTS[f"{task}/{split}"]


def test_content_depends_on_neither_hash_order_nor_what_was_asked_before():
    code = (
        "import sys; from weft.suites.swatch import generate; import json, hashlib\n"
        "for name in sys.argv[1:]:\n"
        "    rows = generate(*name.split('/'))\n"
        "    text = ''.join(json.dumps(row) + '\\n' for row in rows)\n"
        "    print(name, hashlib.sha256(text.encode()).hexdigest())\n"
    )
    names = sorted(DIGESTS, reverse=True)
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code, *names],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert dict(line.split() for line in done.stdout.splitlines()) == DIGESTS


def test_the_whole_suite_takes_under_a_second_and_is_remembered():
    from weft.suites.swatch import generator

    generator._splits.cache_clear()
    start = time.process_time()
    for task in TASKS:
        generate(task, "test")
    assert time.process_time() - start < 1


def test_rows_are_the_callers_own():
    generate("sentiment", "test")[0]["text"] = "changed"
    assert generate("sentiment", "test")[0]["text"] != "changed"


@pytest.mark.parametrize("task", TASKS)
def test_sizes_and_columns(task):
    facts = SWATCH[task]
    for split in SPLITS:
        rows = generate(task, split)
        assert len(rows) == facts.rows[split]
        assert {tuple(row) for row in rows} == {(*facts.texts, facts.label, "pattern")}
    assert 600 <= facts.rows["train"] <= 2000
    assert 300 <= facts.rows["validation"] <= 400
    assert 300 <= facts.rows["test"] <= 400
    assert len({facts.rows["train"] for facts in SWATCH.values()}) == len(SWATCH)


@pytest.mark.parametrize("task", TASKS)
def test_no_text_stands_in_two_rows_of_any_split(task):
    seen = [text for split in SPLITS for row in generate(task, split) for text in texts(task, row)]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("task", TASKS)
def test_texts_are_plain_sentences(task):
    for split in SPLITS:
        for row in generate(task, split):
            for text in texts(task, row):
                assert text.isascii(), text
                assert re.fullmatch(r"[A-Z][A-Za-z0-9',; ]*[.?]", text), text
                assert "  " not in text, text
                assert not re.search(r" [,;.?]", text), text
                assert not re.search(r"\b(a [aeio]|an [^aeiou])", text), text
                assert len(text.split()) <= 32, text


@pytest.mark.parametrize("task", [task for task in TASKS if SWATCH[task].kind == "classify"])
def test_labels_are_the_declared_ones_and_roughly_balanced(task):
    labels = SWATCH[task].labels
    for split in SPLITS:
        found = [row["label"] for row in generate(task, split)]
        assert set(found) == set(labels)
        for label in labels:
            share = found.count(label) / len(found) * len(labels)
            assert 0.6 < share < 1.5, (split, label, share)
            assert share != 1


def test_scores_are_spread_over_nought_to_five_in_fifths():
    for split in SPLITS:
        scores = [float(row["score"]) for row in generate("similarity", split)]
        assert min(scores) == 0
        assert max(scores) == 5
        assert all(abs(score * 5 - round(score * 5)) < 1e-9 for score in scores)
        for low in range(5):
            assert sum(low <= score <= low + 1 for score in scores) > 0.1 * len(scores)


@pytest.mark.parametrize("task", TASKS)
def test_length_and_punctuation_do_not_tell_the_label(task):
    facts = SWATCH[task]
    rows = generate(task, "train")
    for value in facts.labels or (None,):
        target = [float(row[facts.label] if value is None else row[facts.label] == value) for row in rows]
        for column in facts.texts:
            lengths = [float(len(str(row[column]).split())) for row in rows]
            assert abs(correlation(lengths, target)) < 0.25, (column, value)
            for mark in ",;?":
                marks = [float(str(row[column]).count(mark)) for row in rows]
                assert abs(correlation(marks, target)) < 0.15, (column, value, mark)
        if len(facts.texts) == 2:
            shorter = [float(len(a.split()) - len(b.split())) for a, b in (texts(task, row) for row in rows)]
            assert abs(correlation(shorter, target)) < 0.25, value


@pytest.mark.parametrize("task", TASKS)
def test_every_pattern_is_in_every_split_with_every_label(task):
    facts = SWATCH[task]
    if facts.kind == "regress":
        return
    everywhere = [{(row["pattern"], row["label"]) for row in generate(task, split)} for split in SPLITS]
    patterns = {pattern for pattern, _ in everywhere[0]}
    assert len(patterns) >= 3
    for found in everywhere:
        assert found == {(pattern, label) for pattern in patterns for label in facts.labels}


def test_it_is_said_to_be_synthetic():
    from weft.suites import swatch

    assert "synthetic" in str(swatch.__doc__)
    assert "not a benchmark" in str(swatch.__doc__)
    assert all(facts.about.startswith("Synthetic: ") for facts in SWATCH.values())


def test_facts_agree_with_what_weft_knows():
    known = {"accuracy", "f1", "matthews", "pearson", "spearman"}
    for facts in SWATCH.values():
        assert facts.kind in ("classify", "regress")
        assert bool(facts.labels) == (facts.kind == "classify")
        assert facts.metrics
        assert set(facts.metrics) <= known


def test_write(tmp_path):
    paths = write(tmp_path / "new" / "swatch")
    assert len(paths) == len(SWATCH) * len(SPLITS)
    for path in paths:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert rows == generate(path.parent.name, path.stem)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGESTS[f"{path.parent.name}/{path.stem}"]


@pytest.mark.parametrize(
    ("task", "split", "message"),
    [
        ("sentimant", "train", "swatch has no task 'sentimant'; did you mean 'sentiment'"),
        ("sentiment", "dev", "swatch has no split 'dev'; .*known: test, train, validation"),
    ],
)
def test_unknown_names(task, split, message):
    with pytest.raises(WeftError, match=message):
        generate(task, split)
