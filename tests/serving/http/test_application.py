"""Whatever the company, order, batch and concurrency, an HTTP answer is that of `model.predict`."""

from __future__ import annotations

import json
import random
import threading
import urllib.error
import urllib.request

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind, serving
from weft.bundle.manifest import bundle_sha256
from weft.model.transforms.quantize import quantize
from weft.serving.client import ServerError

METHODS = {"lora": None, "heads alone": "frozen", "pals": "pals", "separate": "separate"}


@pytest.fixture(scope="module", params=METHODS)
def served(request, tmp_path_factory):
    folder = save_every_kind(tmp_path_factory.mktemp("served"), METHODS[request.param])
    with serving(folder) as server:
        server.model = weft.load(folder)
        yield server


@settings(max_examples=15)
@given(chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=40))
def test_any_mix_is_answered_as_by_predict(served, chosen):
    answers = [plain(answer) for answer in served.client().predict(chosen)]
    assert_near(answers, served.model.predict(chosen), 1e-5)


def test_int8_is_that_of_a_quantized_model(tmp_path):
    folder = save_every_kind(tmp_path)
    model = quantize(weft.load(folder))
    with serving(folder, precision="int8") as server:
        client = server.client()
        for request in REQUESTS[::12]:  # one at a time: a batch has one scale, so numbers depend on it
            assert_near(plain(client.predict([request])[0]), model.predict([request])[0], 1e-5)


@pytest.fixture(scope="module")
def plain_server(tmp_path_factory):
    folder = save_every_kind(tmp_path_factory.mktemp("plain"))
    with serving(folder) as server:
        server.folder, server.model = folder, weft.load(folder)
        yield server


def concurrent(server, clients, each, seed=0):
    """Send mixed requests from many clients at once; returns what was wrong, and how many texts were sent."""
    right = server.model.predict(REQUESTS)
    wrong, texts = [], [0] * clients

    def send(number):
        draw, client = random.Random(f"{seed} {number}"), server.client()
        for _ in range(each):
            chosen = [draw.randrange(len(REQUESTS)) for _ in range(draw.choice((1, 1, 1, 4, 9)))]
            texts[number] += len(chosen)
            try:
                answers = client.predict([REQUESTS[i] for i in chosen])
                assert_near([plain(a) for a in answers], [right[i] for i in chosen], 1e-5)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
        client.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong, sum(texts)


def check_concurrent(server, clients, each):
    before = server.count("weft_texts_total"), server.count("weft_requests_total", status="200")
    wrong, texts = concurrent(server, clients, each)
    assert wrong == []
    assert server.count("weft_texts_total") - before[0] == texts
    assert server.count("weft_requests_total", status="200") - before[1] == clients * each


def test_many_clients_at_once(plain_server):
    check_concurrent(plain_server, 16, 10)


@pytest.mark.slow
def test_twenty_thousand_requests_of_64_clients(plain_server):
    check_concurrent(plain_server, 64, 313)


def test_one_text_for_many_tasks_is_answered_as_by_predict_all(plain_server):
    client, text = plain_server.client(), "the cat sees a dog"
    answers = client.predict_all([text, ("a cat", "the dog")])
    right = plain_server.model.predict_all([text, ("a cat", "the dog")])
    assert_near([{name: plain(a) for name, a in each.items()} for each in answers], right, 1e-5)
    some = client.predict_all(text, ["classify", "multilabel"])
    assert list(some) == ["classify", "multilabel"]


def test_embeddings_are_those_of_embed(plain_server):
    client, texts = plain_server.client(), ["the cat", ("a dog", "a bird"), "now"]
    for task in (None, "classify"):
        vectors = client.embed(texts, task, normalize=True)
        assert_near(vectors, plain_server.model.embed(texts, task, normalize=True).tolist(), 1e-5)


def test_every_listed_example_is_answered(plain_server):
    client = plain_server.client()
    for about in client.tasks():
        answer = _post(plain_server, about["example"])["answers"][0]
        assert answer["task"] == about["name"]
        assert answer["truncated"] is False


def test_truncation_is_reported(plain_server):
    long = "the cat " * 40
    answers = _post(plain_server, {"task": "classify", "texts": ["the cat", long]})["answers"]
    assert [answer["truncated"] for answer in answers] == [False, True]
    spans = _post(plain_server, {"task": "span", "text_a": "the cat", "text_b": long})["answers"]
    assert spans[0]["truncated"] is False  # a context is cut into windows, and read completely
    every = _post(plain_server, {"tasks": "all", "text": long})["answers"][0]["tasks"]
    assert every["classify"]["truncated"] is True
    assert every["tag"]["truncated"] is False


def test_ids_come_back(plain_server):
    requests = [{"task": "classify", "text": "the cat", "id": i} for i in ("x", 7, {"a": [1]})]
    answers = _post(plain_server, {"requests": requests})["answers"]
    assert [answer["id"] for answer in answers] == ["x", 7, {"a": [1]}]


def test_the_bundle_is_named(plain_server):
    body = _post(plain_server, {"task": "classify", "text": "the cat"})
    assert body["bundle"] == bundle_sha256(plain_server.folder)


def test_the_document_names_every_path_and_task(plain_server):
    document = _get(plain_server, "/openapi.json")
    assert set(document["paths"]) == {
        *("/v1/predict", "/v1/embed", "/v1/tasks", "/health/live", "/health/ready", "/metrics")
    }
    examples = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    names = [task.name for task in plain_server.model.tasks]
    assert set(names) <= set(examples["examples"])
    for example in examples["examples"].values():
        assert _post(plain_server, example["value"])["answers"]


def test_the_application_is_made_by_a_function_of_the_package(plain_server):
    """Also after a module of the package was imported: none has the name of the function."""
    import weft.serving.http.application

    assert callable(weft.serving.app)
    assert isinstance(weft.serving.app(plain_server.model, log="none"), weft.serving.http.application.App)


def test_a_model_is_served_too(plain_server):
    with serving(plain_server.model) as server:
        answer = server.client().predict("classify", "the cat")
    assert plain(answer) == plain_server.model.predict("classify", "the cat")


def test_a_server_that_is_not_ready_says_so(plain_server):
    plain_server.app.engine.state = "loading"
    try:
        with pytest.raises(ServerError, match="being loaded") as caught:
            plain_server.client().predict("classify", "the cat")
        assert caught.value.status == 503
        assert not plain_server.client().is_ready()
    finally:
        plain_server.app.engine.state = "ready"


def test_other_origins_are_refused_unless_named(plain_server):
    def headers(server):
        request = urllib.request.Request(f"{server.url}/v1/tasks", headers={"Origin": "https://a.example"})
        with urllib.request.urlopen(request) as response:
            return response.headers

    with pytest.raises(urllib.error.HTTPError, match="403"):
        headers(plain_server)
    with serving(plain_server.model, cors=("https://a.example",)) as server:
        assert headers(server)["Access-Control-Allow-Origin"] == "https://a.example"


def _post(server, body, path="/v1/predict"):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def _get(server, path):
    with urllib.request.urlopen(server.url + path) as response:
        return json.loads(response.read())
