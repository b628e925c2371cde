"""The model card: what it says, and that the hub accepts it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results

import weft
from tests.support.every_kind import NAMES, task_of_kind
from tests.support.hub_client import card_problems
from tests.support.more import some_of
from tests.support.tiny import TASKS
from tests.support.tiny_run import save_encoder
from weft.bundle.manifest import find_bundle
from weft.data.readers.streamed import json_rows, stream_lines
from weft.evaluation.run_metrics import write_metrics
from weft.hub.card import card, is_edited, new_card
from weft.hub.facts import card_facts, encoder_facts
from weft.hub.header import check_card, pipeline_tag
from weft.inference.requests import Asked, RequestReader
from weft.tasks.kinds import KINDS
from weft.utils.markdown import shown
from weft.utils.notes import no_note


def test_the_card_of_a_run(hub, run):
    text = card(run, "anna/reviews", license="apache-2.0", languages=("en", "de"))
    data = ModelCard(text).data.to_dict()
    assert data["license"] == "apache-2.0"
    assert data["language"] == ["en", "de"]
    assert data["library_name"] == "weft"
    assert {"weft", "multi-task", "lora", "classify", "regress"} <= set(data["tags"])
    metrics = json.loads((run / "metrics.json").read_text())["tasks"]
    name, results = model_index_to_eval_results(data["model-index"])
    assert name == "reviews"
    found = {(r.task_name, r.metric_type): r.metric_value for r in results}
    assert found == {
        (task, metric): pytest.approx(value, abs=1e-6)
        for task, values in metrics.items()
        for metric, value in values.items()
    }
    assert {r.dataset_split for r in results} == {"validation"}
    ModelCard(text).validate()  # by the stand-in's /api/validate-yaml
    assert any(seen.path == "/api/validate-yaml" for seen in hub.seen)
    for words in ("weft predict anna/reviews", "weft.load('anna/reviews')", str(weft.load(run).ledger())):
        assert words in text
    assert "cat.train.jsonl" in text
    assert "private-place" not in text


def test_the_test_split_is_in_the_card_too(run):
    # the scores of the bundle as it is: `weft evaluate --split test` writes them with its hash
    write_metrics(run, {"split": "test", "tasks": {"cat": {"accuracy": 0.625}}, "rows": {"cat": 8}})
    try:
        facts = card_facts(run)
        assert "| `cat` | test | accuracy | 0.6250 | 8 |" in new_card(facts)
        (run / "metrics.test.json").write_text(
            '{"split": "test", "tasks": {"cat": {"accuracy": 1}}, "bundle": "x"}'
        )
        notes: list[str] = []
        assert set(card_facts(run, tell=notes.append).metrics) == {"validation"}
        assert any("the bundle has changed since" in note for note in notes)
    finally:
        (run / "metrics.test.json").unlink()


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory):
    """A model with a task of every kind and form; the last one has labels with a meaning in Markdown."""
    folder = tmp_path_factory.mktemp("kinds")
    tasks = [task_of_kind(name) for name in NAMES]
    tasks.append(weft.Task("odd", labels=("a|b", "<script>", "`c`", "[d](e)")))
    model = weft.Model(save_encoder(folder / "e"), tasks, "bitfit", pool="cls", max_length=24).eval()
    model.save(folder / "b")
    return folder / "b", model


def test_the_card_of_every_kind(every_kind, tmp_path):
    bundle, model = every_kind
    text = card(bundle, "anna/x")
    assert card_problems(text) == []
    (block,) = re.findall(r"```json\n(.*?)\n```", text, re.S)
    file = tmp_path / "requests.jsonl"
    file.write_text(block + "\n")
    rows = stream_lines(file, "utf-8", json_rows)
    requests = list(RequestReader(list(model.tasks), Asked()).requests(rows))
    assert [request.wrong for request in requests] == [None] * len(model.tasks)
    assert "<script>" not in text


@pytest.mark.parametrize("name", some_of([*NAMES, "odd"], ["classify", "marked", "span", "put_in"]))
def test_what_the_card_tells_users_to_type(every_kind, name):
    bundle, model = every_kind
    facts = card_facts(bundle)
    alone = replace(facts, tasks={name: facts.tasks[name]})
    assert pipeline_tag(alone) == KINDS[facts.tasks[name].kind].pipeline_tag
    code = re.findall(r"```python\n(.*?)\n```", new_card(alone), re.S)[0]
    (line,) = [line for line in code.splitlines() if "predict" in line]
    assert len(eval(line, {"model": model})) == 1


def test_tasks_that_differ_have_no_pipeline_tag(tmp_path):
    tasks = [weft.Task("x", labels=("no", "yes")), weft.Task("y", "tag", labels=("O", "B-x"))]
    weft.Model(save_encoder(tmp_path / "e"), tasks, "bitfit", max_length=24).save(tmp_path / "b")
    facts = card_facts(tmp_path / "b")
    assert pipeline_tag(facts) is None
    assert "pipeline_tag" not in new_card(facts)
    assert "No metrics are known" in new_card(facts)


def test_texts_of_data_mean_nothing_in_markdown():
    text = shown('a|b <script>`x`</script> [y](z) **c**\n# d & "e"')
    assert not set('|<>`[]*#\n"') & set(re.sub(r"&#\d+;", "", text))


def test_an_unknown_encoder_and_one_of_random_weights_say_so(tmp_path):
    weft.Model("random:bert-tiny", TASKS[:1], "bitfit").save(tmp_path / "b")
    text = card(tmp_path / "b")
    assert "it has seen no other data" in text
    assert "base_model" not in text
    weft.Model(save_encoder(tmp_path / "mine"), TASKS[:1], "bitfit").save(tmp_path / "c")
    text = card(tmp_path / "c")
    assert "is not known to weft" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("name", "included", "hub_id", "local"),
    [
        ("minilm", None, "sentence-transformers/all-MiniLM-L6-v2", False),
        ("google/bert", None, "google/bert", False),
        ("bert-base-uncased", None, "bert-base-uncased", False),
        ("BertModel", "0", None, False),
        ("/home/anna/encoder", None, None, True),
        ("C:\\models\\encoder", None, None, True),
        ("random:bert-tiny", None, None, False),
        ("random:bert-tiny@/home/anna/words", None, None, True),
    ],
)
def test_what_is_known_about_an_encoder(name, included, hub_id, local):
    facts = encoder_facts({"encoder": {"name": name, "included": included}})
    assert (facts.hub_id, facts.local) == (hub_id, local)
    assert "anna" not in facts.name
    assert "models" not in facts.name


def test_a_card_knows_whether_it_was_edited(run):
    text = new_card(card_facts(run, "anna/x"))
    assert not is_edited(text)
    assert not is_edited(text.replace("\n", "\r\n").rstrip())
    assert is_edited(text.replace("lora", "Lora", 1))
    assert is_edited("---\nlicense: mit\n---\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# no header", "has no header"),
        ("---\na: [1\n---\n", "is not YAML"),
        ("---\n- 1\n---\n", "expected names and values"),
        ("---\nmodel-index: [{name: x, results: [{}]}]\n---\n", "would not accept"),
        ("---\na: !!python/object/apply:os.getcwd []\n---\n", "is not YAML"),
    ],
)
def test_a_card_that_the_hub_would_refuse(text, message):
    with pytest.raises(weft.WeftError, match=message):
        check_card(text, "README.md")


def test_a_card_in_the_bundle_is_the_card(tmp_path):
    weft.Model("random:bert-tiny", TASKS[:1], "bitfit").save(tmp_path / "b")
    own = "---\nlicense: mit\n---\n\n# Mine\n"
    (find_bundle(tmp_path / "b") / "README.md").write_text(own)
    assert card(tmp_path / "b", "anna/x", tell=no_note) == own
    assert ModelCardData(**ModelCard(own).data.to_dict()).license == "mit"


def test_settings_that_an_existing_card_leaves_without_effect_are_named(run, tmp_path):
    folder = shutil.copytree(find_bundle(run), tmp_path / "bundle")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    notes: list[str] = []
    card(folder, license="apache-2.0", languages=("en",), tell=notes.append)
    assert "license and languages have no effect" in notes[0]
    assert str(folder / "README.md") in notes[0]
    card(folder, tell=notes.append)
    assert len(notes) == 1
