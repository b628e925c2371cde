"""Where the host's time goes in `weft serve`: microseconds per text of each part, without HTTP load.

    python -m benchmarks.speed.serving.host_parts --root DATA [--encoder minilm] [--device cuda] [--tasks 9]
        [--sizes 1 16 64 400] [--rounds 30] [--out FILE.json]

The parts are called one after the other, as the server calls them: reading a body, tokenizing, cutting into
batches, starting a pass, waiting for it, decoding, writing the response. `app` is a whole request of one text
through the ASGI application, with a batcher that answers at once: what a request costs besides the model.
On a GPU, `start` is the host's share of a pass, and `wait` the time until its logits are there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import weft
from benchmarks.speed.encoders import minilm
from benchmarks.speed.machine import in_words, machine
from benchmarks.speed.serving.measure import texts_of
from benchmarks.speed.serving.on_gpu import many_tasks, spread
from weft.serving.batching.ticket import Item, Ticket
from weft.serving.batching.worker import Worker
from weft.serving.http.application import App, app
from weft.serving.http.exchange import json_response, parsed
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.settings import ServeSettings
from weft.serving.tasks.served_tasks import ServedTasks

ANSWER = {"task": "x", "label": "yes", "probabilities": {"no": 0.25, "yes": 0.75}, "truncated": False}


def main() -> None:
    args = arguments()
    device = torch.device(args.device)
    print(in_words(machine(device)), flush=True)
    tasks = weft.load_suite("glue", args.root)
    requests = texts_of(tasks)
    if args.tasks > len(tasks):
        listed = many_tasks(tasks, args.tasks)
        requests = spread(requests, [task.name for task in tasks], [task.name for task in listed])
        tasks = listed
    model = weft.Model(minilm(args.minilm) if args.encoder == "minilm" else args.encoder, tasks, "lora")
    model = model.to(device).eval()
    if device.type == "cuda":
        model.capture()
    rows: list[dict[str, Any]] = []
    for size in args.sizes:
        rows.append({"texts": size, **of_batch(model, requests, size, args.rounds)})
        print(json.dumps(rows[-1]), flush=True)
    rows.append({"texts": 1, "app": asyncio.run(of_request(model, requests, 50 * args.rounds))})
    print(json.dumps(rows[-1]), flush=True)
    if args.out:
        args.out.write_text(json.dumps({"machine": machine(device), "rows": rows}, indent=1) + "\n")


def of_batch(model: Any, requests: list[dict[str, Any]], size: int, rounds: int) -> dict[str, float]:
    """Microseconds per text of each part, the median over the rounds.

    Args:
        model: the model.
        requests: bodies of requests, one text each.
        size: texts that are answered together.
        rounds: how often.
    """
    names = {task.name: number for number, task in enumerate(model.tasks)}
    served = ServedTasks(model.tasks, names, [0] * len(model.tasks), 0, "0" * 64)
    worker, settings = Worker(model), ServeSettings(texts=size)
    taken: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        taken.setdefault(name, []).append(1e6 * (time.perf_counter() - began) / size)
        return result

    for number in range(rounds + 3):
        first = number * size % max(1, len(requests) - size)
        body = json.dumps({"requests": requests[first : first + size]}).encode()
        if number == 3:
            taken.clear()  # the first rounds capture graphs
        questions = timed("read", lambda body=body: predict_questions(parsed(body), served, settings))
        ticket = Ticket(questions, 60.0, lambda: None)
        items = [Item(ticket, position, question) for position, question in enumerate(questions)]
        timed("tokenize", lambda items=items: worker.tokenize(items))
        batches = timed("cut", lambda items=items: list(worker.batches(items)))
        started = timed("start", lambda batches=batches: [worker.start(batch) for batch in batches])
        if worker.waits:
            timed("wait", torch.cuda.synchronize)
        answers = timed("decode", lambda b=batches, s=started: list(map(worker.finish, b, s)))
        every = [answer for of_batch in answers for answer in of_batch]
        timed("write", lambda every=every: json_response({"bundle": "0" * 64, "answers": every}))
    return {name: round(statistics.median(each), 1) for name, each in taken.items()}


async def of_request(model: Any, requests: list[dict[str, Any]], count: int) -> float:
    """Microseconds of a request of one text besides the model, the median."""
    application = app(model, log="none", threads=1)
    application.engine.load()
    served = application.engine.served
    application.engine._batcher = _Instant(served)  # type: ignore[attr-defined]
    taken = []
    for number in range(count):
        body = json.dumps(requests[number % len(requests)]).encode()
        began = time.perf_counter()
        await _posted(application, body)
        taken.append(1e6 * (time.perf_counter() - began))
    return round(statistics.median(taken), 1)


class _Instant:
    """Answers every question at once."""

    waiting, rate = 0, 1.0

    def __init__(self, served: ServedTasks) -> None:
        self.served = served

    def submit(self, ticket: Ticket) -> None:
        for position in range(len(ticket.questions)):
            ticket.answer(position, ANSWER, self.served.sha256)
        asyncio.get_running_loop().call_soon(ticket.finish)


async def _posted(application: App, body: bytes) -> None:
    """Send one request to the application, as an ASGI server does; refuse any status but 200."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.sleep(60)
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        if message.get("status", 200) != 200:
            raise RuntimeError(f"status {message['status']}")

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "path": "/v1/predict", "method": "POST", "headers": headers}
    await application(scope | {"query_string": b"", "client": ("localhost", 1)}, receive, send)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.serving.host_parts")
    parser.add_argument("--root", required=True, help="folder with GLUE's files")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--minilm", help="folder with MiniLM's files; default: the installed package")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tasks", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 16, 64, 400], help="texts at once")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, help="file of the results, JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
