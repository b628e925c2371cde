"""Replicas in one process, which share their changes directly instead of by way of Ray."""

from __future__ import annotations

import asyncio
import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

import weft
from tests.support.serving import plain, save_every_kind
from weft.serving.metrics import merged
from weft.serving.replicas.replica import ReplicaApp, replay
from weft.serving.replicas.task_changes import Change, TaskChanges
from weft.serving.settings import ServeSettings

FEW = ("classify", "regress")
SETTINGS = ServeSettings(admin=True, threads=1, tokens=512, spare=1, log="none", device="cpu")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A bundle with two tasks, and the same with `second`, a copy of the first under a new name."""
    folder = tmp_path_factory.mktemp("replicas")
    few = save_every_kind(folder / "few", names=FEW)
    return few, weft.copy_task(few, "classify", few, rename="second", out=folder / "copy").folder


def file_of(bundle, name):
    return (bundle / "tasks" / f"{name}.safetensors").read_bytes()


async def ask(app, method, path, body=b""):
    """One request to an application; returns the status and the body."""
    sent, bodies = [], [body]

    async def receive():
        if not bodies:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message):
        sent.append(message)

    # from this machine: without admin keys nobody else may change tasks
    headers, client = [(b"host", b"localhost")], ("127.0.0.1", 1)
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": client, "root_path": ""}
    await app(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], content if path == "/metrics" else json.loads(content)


async def started(bundle, shared, name):
    app = ReplicaApp(bundle, SETTINGS, name, shared)
    await app.begin()
    return app


async def predict(app, task):
    body = json.dumps({"task": task, "text": "the cat sees a dog"}).encode()
    status, answer = await ask(app, "POST", "/v1/predict", body)
    return status, plain(answer["answers"][0]) if status == 200 else answer


def run_with(test):
    """Run a test with an event loop; replicas are ended."""

    async def run():
        apps = []

        async def start(bundle, shared, name):
            apps.append(await started(bundle, shared, name))
            return apps[-1]

        try:
            await test(start)
        finally:
            for app in apps:
                await app.end()

    asyncio.run(run())


@pytest.mark.slow
def test_a_changed_task_is_everywhere_when_the_client_gets_its_answer(bundles):
    few, with_second = bundles
    expected = weft.load(few, device="cpu").predict("classify", "the cat sees a dog")

    async def test(start):
        shared = TaskChanges()
        first, second = await start(few, shared, "one"), await start(few, shared, "two")
        assert (await predict(second, "second"))[0] == 404
        status, about = await ask(first, "PUT", "/v1/tasks/second", file_of(with_second, "second"))
        assert (status, about["task"]["name"]) == (201, "second")
        third = await start(few, shared, "three")
        answers = [await predict(app, "second") for app in (first, second, third)]
        assert answers == [(200, {**expected, "task": "second"})] * 3
        hashes = {app.engine.served.sha256 for app in (first, second, third)}
        assert len(hashes) == 1
        assert (await ask(second, "DELETE", "/v1/tasks/classify"))[0] == 200
        assert [(await predict(app, "classify"))[0] for app in (first, second, third)] == [404] * 3
        _, ready = await ask(third, "GET", "/health/ready")
        assert ready == {"status": "ready", "replica": "three", "replicas": 3}
        assert (await ask(third, "GET", "/health/live"))[1] == {"status": "ready", "replica": "three"}

    run_with(test)


@pytest.mark.slow
def test_a_refused_change_is_nowhere_and_lets_others_go_on(bundles):
    few, with_second = bundles

    async def test(start):
        shared = TaskChanges()
        first, second = await start(few, shared, "one"), await start(few, shared, "two")
        status, why = await ask(first, "PUT", "/v1/tasks/second", b"no file of a task")
        assert (status, why["error"]["code"]) == (422, "bad_input")
        assert await shared.all_changes() == (0, [])
        file = file_of(with_second, "second")
        both = [ask(app, "PUT", "/v1/tasks/second", file) for app in (first, second)]
        assert {status for status, _ in await asyncio.gather(*both)} <= {200, 201}
        assert first.broken is None
        assert second.broken is None

    run_with(test)


def test_a_replica_that_cannot_follow_is_replaced(bundles):
    few, _ = bundles

    async def test(start):
        shared = TaskChanges()
        first = await start(few, shared, "one")
        await shared.join("other", 0)
        await shared.turn("other")
        publishing = asyncio.create_task(shared.publish("other", "bad", b"damaged on its way"))
        while first.broken is None:
            await asyncio.sleep(0.01)
        publishing.cancel()
        assert (await ask(first, "GET", "/health/ready"))[0] == 503

    run_with(test)


@pytest.mark.slow
def test_metrics_are_those_of_all_replicas(bundles):
    few, _ = bundles

    async def test(start):
        shared = TaskChanges()
        apps = [await start(few, shared, name) for name in ("one", "two")]
        for app in apps:
            assert (await predict(app, "classify"))[0] == 200
        while 'weft_texts_total{task="classify"} 1.0' not in (await shared.replicas())["two"]:
            await asyncio.sleep(0.05)
        _, text = await ask(apps[0], "GET", "/metrics")
        families = {family.name: family for family in text_string_to_metric_families(text.decode())}
        counts = {s.labels["replica"]: s.value for s in families["weft_texts"].samples if "task" in s.labels}
        assert text.count(b"# TYPE weft_texts_total") == 1
        assert set(counts) == {"one", "two"}

    run_with(test)


def test_merged_metrics_describe_each_metric_once():
    one = "# HELP a x\n# TYPE a counter\n# HELP b y\n# TYPE b gauge\nb 1.0\n"
    two = '# HELP a x\n# TYPE a counter\na{k="v"} 2.0\n# HELP b y\n# TYPE b gauge\nb 3.0\n'
    assert merged({"1": one, "2": two}).splitlines() == [
        *("# HELP a x", "# TYPE a counter", 'a{replica="2",k="v"} 2.0'),
        *("# HELP b y", "# TYPE b gauge", 'b{replica="1"} 1.0', 'b{replica="2"} 3.0'),
    ]


class Names:
    """Stands for an engine: the names of its tasks."""

    def __init__(self, *names):
        self.names = list(names)

    @property
    def served(self):
        return type("Served", (), {"ids": dict.fromkeys(self.names)})

    def put_task(self, name, contents):
        self.names += [] if name in self.names else [name]

    def remove_task(self, name):
        assert len(self.names) > 1
        self.names.remove(name)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([("b", b""), ("a", None)], ["b"]),
        ([("a", None), ("c", b""), ("b", None)], ["c"]),
        ([("a", None), ("b", b""), ("a", b"")], ["a", "b"]),
    ],
)
def test_the_last_task_is_removed_once_there_is_another(changes, names):
    engine = Names("a")
    replay(engine, [Change(number, *change) for number, change in enumerate(changes, 1)])
    assert sorted(engine.names) == names
