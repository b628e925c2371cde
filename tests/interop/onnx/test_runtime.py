"""An exported model answers as the model, through the same functions, and refuses what it cannot do."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.exported_onnx import REQUESTS
from tests.support.near import assert_near
from weft.errors import WeftError
from weft.interop.onnx.export import save_graph
from weft.interop.onnx.quantize import quantize
from weft.interop.onnx.runtime import OnnxModel
from weft.utils.checksums import file_sha256


@pytest.fixture(scope="module")
def both(export):
    return weft.load(export / "bundle"), OnnxModel(export / "onnx", threads=1)


def sealed(folder, **about):
    """Write the hashes of the changed graph into tasks.json."""
    facts = json.loads((folder / "tasks.json").read_text())
    facts["graph"] |= {"sha256": {file.name: file_sha256(file) for file in folder.glob("model.*")}, **about}
    (folder / "tasks.json").write_text(json.dumps(facts))


@given(chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=30), size=st.integers(1, 70))
def test_any_mix_of_requests_is_answered_as_by_the_model(both, chosen, size):
    model, exported = both
    assert_near(exported.predict(chosen, batch_size=size), model.predict(chosen), 1e-4)


def test_streams_and_many_tasks(both):
    model, exported = both
    mixed = random.Random(1).sample(REQUESTS, len(REQUESTS))
    assert_near(list(exported.predict_stream(iter(mixed))), model.predict(mixed), 1e-4)
    texts = ["the cat sees", ("the cat", "a red dog"), "now"]
    assert_near(exported.predict_all(texts), model.predict_all(texts), 1e-4)
    assert_near(exported.predict("classify", "the cat"), model.predict("classify", "the cat"), 1e-4)


@pytest.mark.parametrize("task", ["classify", "regress", "marked", "tag", "cosine"])
def test_vectors_are_those_that_the_heads_read(both, task):
    model, exported = both
    texts = ["the cat sees a dog", "now", "very old"]
    for normalize in (False, True):
        expected = model.embed(texts, task, normalize)
        torch.testing.assert_close(exported.embed(texts, task, normalize), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(WeftError, match="choose a task"):
        exported.embed(texts)


def test_int8_is_near_and_smaller(both, export, tmp_path):
    import onnx

    model, _ = both
    folder = shutil.copytree(export / "onnx", tmp_path / "int8")
    whole = onnx.load(folder / "model.onnx")
    small = quantize(whole)
    products = [node.op_type for node in small.graph.node]
    assert products.count("MatMulInteger") >= 6  # of two blocks
    onnx.save(small, folder / "model.onnx")
    sealed(folder, precision="int8")
    requests = [(name, row) for name, row in REQUESTS if name in ("classify", "two")]
    found, expected = OnnxModel(folder).predict(requests), model.predict(requests)
    assert found != expected
    for own, other in zip(found, expected, strict=True):
        if own["task"] == "classify":
            assert own["probabilities"] == pytest.approx(other["probabilities"], abs=0.15)


def test_evaluation_by_the_graph_gives_the_scores_of_the_model(both):
    from tests.support.every_kind import task_of_kind, tokens_of
    from weft.evaluation.evaluate import evaluate

    model, exported = both
    # no correlations: of a few answers of an untrained model, the last bit may decide on a rank
    names = ("classify", "apart", "multilabel", "marked", "span", "tag", "choose", "put_in")
    data = {name: tokens_of(task_of_kind(name), model.tokenizer, split="validation") for name in names}
    assert_near(evaluate(exported, data)["tasks"], evaluate(model, data)["tasks"], 1e-4)


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        ("model.onnx", lambda data: data[:-9] + b"123456789", "is damaged"),
        ("tasks.json", lambda data: data.replace(b'"format": 1', b'"format": 7'), "reads format 1"),
        ("tasks.json", lambda data: b"[" * 5000, "nested"),
        ("tasks.json", lambda data: data.replace(b'"pad_id": 0', b'"pad_id": "x"'), "pad_id"),
        ("tasks.json", lambda data: data.replace(b'"classify-2": {', b'"other": {'), "has no output"),
        ("tasks.json", lambda data: data.replace(b'"task": "int64', b'"tasc": "int64'), "different form"),
        ("tokenizer.json", lambda data: b"{}", "tokenizer"),
    ],
)
def test_a_damaged_folder_is_refused(export, tmp_path, file, change, expected):
    folder = shutil.copytree(export / "onnx", tmp_path / "x")
    data = (folder / file).read_bytes()
    changed = change(data)
    assert changed != data
    (folder / file).write_bytes(changed)
    with pytest.raises(WeftError, match=expected):
        OnnxModel(folder)


def test_a_graph_that_is_none_and_links_are_refused(export, tmp_path):
    folder = shutil.copytree(export / "onnx", tmp_path / "x")
    (folder / "model.onnx").write_bytes(b"no graph")
    sealed(folder)
    with pytest.raises(WeftError, match="cannot be loaded by onnxruntime"):
        OnnxModel(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("/etc/passwd")
    with pytest.raises(WeftError, match="link"):
        OnnxModel(folder)


def test_a_large_graph_has_its_weights_beside_it(both, export, tmp_path, monkeypatch):
    import onnx

    folder = shutil.copytree(export / "onnx", tmp_path / "x")
    monkeypatch.setattr("weft.interop.onnx.export.EXTERNAL", 1000)
    save_graph(onnx.load(folder / "model.onnx"), folder / "model.onnx")
    sealed(folder)
    assert (folder / "model.weights").stat().st_size > 100_000
    assert_near(OnnxModel(folder).predict(REQUESTS[:9]), both[0].predict(REQUESTS[:9]), 1e-4)
    (folder / "model.weights").unlink()
    with pytest.raises(WeftError, match="is damaged"):
        OnnxModel(folder)


def test_a_graph_cannot_read_files_elsewhere(export, tmp_path):
    """onnxruntime refuses weights outside of the folder of a graph."""
    import onnx

    folder = shutil.copytree(export / "onnx", tmp_path / "x")
    (tmp_path / "secret").write_bytes(bytes(1 << 20))
    graph = onnx.load(folder / "model.onnx")
    tensor = max(graph.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    sealed(folder)
    with pytest.raises(WeftError, match="cannot be loaded"):
        OnnxModel(folder)
