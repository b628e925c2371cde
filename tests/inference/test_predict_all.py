from __future__ import annotations

import pytest

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.near import assert_near
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError

UPPER = {"use": "lora", "rank": 2, "layers": "1"}
TEXTS = ["the cat sees a dog", "a bird", "the old cat likes the new dog here now", "a bird"]
PAIRS = [("the cat sees", "a dog"), ("not now", "the red bird fears the very old dog")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("all") / "encoder")


def model_of(folder, method, names=NAMES):
    tasks = [task_of_kind(name) for name in names]
    return scramble(weft.Model(folder, tasks, method, max_length=24)).eval()


def count_rows(model):
    """Of each pass through the upper and the lower block, the rows."""
    seen = {0: [], 1: []}
    for number, block in enumerate(model.encoder.encoder.layer):
        attention = block.attention  # runs where the block itself runs
        inner = attention.forward

        def forward(hidden, *args, _inner=inner, _seen=seen[number], **kwargs):
            _seen.append(hidden.size(0))
            return _inner(hidden, *args, **kwargs)

        attention.forward = forward
    return seen


@pytest.mark.each_value
@pytest.mark.parametrize("method", ["frozen", UPPER, "lora", "separate"])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_it_answers_as_predict_does(folder, method, batch_size):
    model = model_of(folder, method)
    texts = [*TEXTS, *PAIRS, ("the cat", ["a dog", "a bird here", "not"])]
    texts += [rows_of_kind(name, 1)[0] for name in ("marked", "tag", "span")]
    found = model.predict_all(texts, batch_size=batch_size)
    assert len(found) == len(texts)
    readers = [set(answers) for answers in found]
    assert readers[0] == {"classify", "two", "multilabel", "tag"}
    assert readers[4] == {"apart", "regress", "cosine", "similar", "span"}
    assert readers[6] == {"choose", "rank", "pairwise"}
    assert "marked" in readers[7]
    for text, answers in zip(texts, found, strict=True):
        for name, answer in answers.items():
            assert_near(answer, model.predict([(name, text)])[0])


@pytest.mark.parametrize(
    ("method", "rows"), [("frozen", ([3], [3])), (UPPER, ([3], [16])), ("lora", ([16], [16]))]
)
def test_what_tasks_share_runs_once_a_text(folder, method, rows):
    model = model_of(folder, method)
    seen = count_rows(model)
    found = model.predict_all(TEXTS, ["classify", "two", "multilabel", "tag"])
    assert [list(answers) for answers in found] == [["classify", "two", "multilabel", "tag"]] * len(TEXTS)
    # two of the four texts are the same; what is cut into words has other rows only where it is cut
    assert (seen[0], seen[1]) == rows


def test_the_model_is_left_in_eval_mode(folder):
    model = model_of(folder, "frozen", ("classify",)).train()
    assert model.predict_all(TEXTS) == model.predict_all(TEXTS)
    assert not any(module.training for module in model.modules())
    assert model.predict_all([]) == []


@pytest.mark.parametrize(
    ("texts", "tasks", "message"),
    [
        (None, None, "expected a list of texts; found None"),
        (["a cat"], 5, "expected a list of names; found 5"),
        (["a cat"], [["classify"]], "is not in this model"),
        (["a cat"], "clasify", "task 'clasify' is not in this model"),
        (["a cat"], [], "at least one task's name"),
        (["a cat"], ["clasify"], "task 'clasify' is not in this model"),
        (["a cat", ("a", "b")], ["classify"], "text 2: task 'classify' takes one text"),
        (["a cat", ("a", "b", "c")], None, "text 2: no task of this model can read it"),
        ([""], None, "text 1: no task of this model can read it"),
        ([{"other": "a cat"}], ["classify"], "text 1: .*'text' is missing"),
    ],
)
def test_wrong_texts(folder, texts, tasks, message):
    model = model_of(folder, "frozen", ("classify", "apart"))
    with pytest.raises(WeftError, match=message):
        model.predict_all(texts, tasks)


@pytest.mark.parametrize("given_", [(), [], "a cat", ("a cat",), ("a", "b", ["c"])])
def test_choices_that_are_not_there(folder, given_):
    model = model_of(folder, "frozen", ("choose",))
    with pytest.raises(WeftError, match=r"request 1: task 'choose' takes .*a list of choices"):
        model.predict([("choose", given_)])
    with pytest.raises(WeftError, match="text 1: no task of this model can read it"):
        model.predict_all([given_])
