"""A server on a GPU: captured passes answer as `predict` does, and a task changes without a new capture."""

from __future__ import annotations

import random
import threading

import pytest

import weft
from tests.support.near import assert_near
from tests.support.serving import REQUESTS, plain, save_every_kind, serving
from tests.support.serving_processes import running
from weft.serving.server import HTTP_PROCESSES
from weft.utils.cores import cores

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = save_every_kind(tmp_path_factory.mktemp("gpu"))
    with serving(folder, device="cuda", admin=True) as running:
        running.folder, running.model = folder, weft.load(folder)
        yield running


@pytest.mark.parametrize("count", [1, 3, 40, len(REQUESTS)])
def test_captured_passes_answer_as_predict(server, count):
    chosen = REQUESTS[:: max(1, len(REQUESTS) // count)][:count]
    answers = [plain(answer) for answer in server.client().predict(chosen)]
    assert_near(answers, server.model.predict(chosen), 1e-4)


def test_a_task_is_replaced_without_a_new_capture(server, tmp_path):
    other = save_every_kind(tmp_path, names=("classify", "regress"))
    captured = server.app.engine.queue.worker.model.captures.requested
    shapes = captured.shapes
    client, text = server.client(), "the cat sees a dog"
    before = client.predict("regress", (text, "a dog"))
    try:
        assert client.put_task(other / "tasks" / "classify.safetensors")["reloaded"] is False
        answer = plain(client.predict("classify", text))
        assert_near(answer, weft.load(other).predict("classify", text), 1e-4)
        assert client.predict("regress", (text, "a dog")) == before
        assert server.app.engine.queue.worker.model.captures.requested is captured
        assert captured.shapes == shapes
    finally:
        client.put_task(server.folder / "tasks" / "classify.safetensors")


def test_a_task_of_a_new_shape_is_captured_beside_the_running_model(server, tmp_path):
    few = save_every_kind(tmp_path / "few", names=("classify", "regress"))
    with serving(few, device="cuda", admin=True, spare=0) as running:
        client = running.client()
        result = client.put_task(server.folder / "tasks" / "span.safetensors")
        assert result["reloaded"] is True
        chosen = [(name, row) for name, row in REQUESTS if name == "span"][:4]
        answers = [plain(answer) for answer in client.predict(chosen)]
        assert_near(answers, server.model.predict(chosen), 1e-4)


@pytest.mark.skipif(
    cores() < 2 * HTTP_PROCESSES, reason="with fewer cores there are no HTTP processes by default"
)
def test_the_command_answers_as_predict_with_its_defaults(server):
    """Captured passes and four HTTP processes, all tasks mixed, from concurrent clients."""
    right, wrong = server.model.predict(REQUESTS), []
    with running(server.folder, "--log", "errors", http_processes=HTTP_PROCESSES, asked=False) as command:

        def send(seed):
            draw, client = random.Random(seed), command.client()
            for _ in range(25):
                chosen = [draw.randrange(len(REQUESTS)) for _ in range(draw.randint(1, 20))]
                answers = [plain(answer) for answer in client.predict([REQUESTS[n] for n in chosen])]
                try:
                    assert_near(answers, [right[n] for n in chosen], 1e-4)
                except AssertionError as error:
                    wrong.append(error)

        threads = [threading.Thread(target=send, args=(seed,)) for seed in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert command.count("weft_requests_total", path="/v1/predict", status="200") == 16 * 25
    assert command.process.returncode == 0
