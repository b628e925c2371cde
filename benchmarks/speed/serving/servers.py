"""The servers that are compared, each a process of its own.

    python -m benchmarks.speed.serving.servers weft|pipelines|litserve BUNDLE PORT

`pipelines`: one Hugging Face pipeline per task, each with its own copy of the encoder, behind starlette and
uvicorn. `litserve`: LitServe with batches of 32, whose model is weft's own `predict`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("weft", "pipelines", "litserve")


class Server:
    """One of the servers, running.

    Args:
        name: one of `NAMES`.
        bundle: the model; its encoder is beside it.
        port: a free port.
        device: `cpu` or `cuda`.
        first: a request that is sent until it is answered.
        options: further options of `weft serve`.
        every: the seconds between two attempts to get the first answer.

    Attributes:
        name: its name.
        url: where it takes requests.
    """

    def __init__(
        self,
        name: str,
        bundle: Path,
        port: int,
        device: str,
        first: dict[str, Any],
        options: Sequence[str] = (),
        every: float = 0.5,
    ) -> None:
        self._every = every
        self.name, self.url = name, f"http://127.0.0.1:{port}/v1/predict"
        if name == "litserve" and importlib.util.find_spec("litserve") is None:
            raise RuntimeError("the package litserve is missing: pip install litserve")
        if name == "weft":
            command = ["-m", "weft", "serve", str(bundle), "--port", str(port)]
            command += ["--log", "none", "--device", device, *options]
        else:
            command = ["-m", "benchmarks.speed.serving.servers", name, str(bundle), str(port), device]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that its children end with it
        )
        self._wait(json.dumps(first).encode())

    def _wait(self, body: bytes, seconds: float = 300.0) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} has ended with exit code {self.process.returncode}")
            try:
                request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=60).read()
                return
            except OSError:
                time.sleep(self._every)
        raise RuntimeError(f"{self.name} did not answer within {seconds:.0f} s")

    def memory_mb(self) -> float:
        """The resident memory of the process and its children, shared pages counted once per process."""
        total, waiting = 0, [self.process.pid]
        while waiting:
            pid = waiting.pop()
            children = Path(f"/proc/{pid}/task/{pid}/children")
            waiting += [int(child) for child in children.read_text().split()]
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        return total / 1024

    def stop(self) -> None:
        """Stop it, and then whatever processes it has left."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def suspended(servers: Iterable[Server], but: Server | None = None) -> Iterator[None]:
    """Suspend servers, except one: some of them poll while they are idle, and would take the cores."""
    waiting = [server for server in servers if server is not but]
    for server in waiting:
        os.killpg(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for server in waiting:
            os.killpg(server.process.pid, signal.SIGCONT)


def pipelines(bundle: str, port: int, device: str) -> None:
    """Serve one pipeline per task."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from transformers import AutoConfig, AutoModel, BertForSequenceClassification, pipeline

    import weft

    model = weft.load(bundle)
    folder = Path(bundle).parent / "encoder"
    model.encoder_source.tokenizer.save_pretrained(folder)
    pipes: dict[str, Any] = {}
    for task in model.tasks:
        size = task.size or 1
        config = AutoConfig.from_pretrained(folder, num_labels=size)
        classifier = BertForSequenceClassification(config)
        classifier.bert.load_state_dict(AutoModel.from_pretrained(folder).state_dict(), strict=False)
        pipes[task.name] = pipeline(
            "text-classification", classifier.eval(), tokenizer=model.tokenizer, device=device, top_k=None
        )
    texts = {task.name: len(task.texts) for task in model.tasks}
    del model

    async def predict(request: Request) -> JSONResponse:
        body = json.loads(await request.body())
        asked = body.get("requests", [body])

        def run() -> list[Any]:
            answers: list[Any] = [None] * len(asked)
            by_task: dict[str, list[int]] = {}
            for number, one in enumerate(asked):
                by_task.setdefault(one["task"], []).append(number)
            for name, numbers in by_task.items():
                pair = texts[name] == 2
                inputs = [
                    {"text": asked[n]["text_a"], "text_pair": asked[n]["text_b"]}
                    if pair
                    else asked[n]["text"]
                    for n in numbers
                ]
                found = pipes[name](inputs, batch_size=32, truncation=True, max_length=128)
                for number, answer in zip(numbers, found, strict=True):
                    answers[number] = answer
            return answers

        return JSONResponse({"answers": await run_in_threadpool(run)})

    app = Starlette(routes=[Route("/v1/predict", predict, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="critical", access_log=False)


def litserve(bundle: str, port: int, device: str) -> None:
    """Serve weft's `predict` by LitServe."""
    from benchmarks.speed.serving.litserve_api import run

    run(bundle, port, device)


if __name__ == "__main__":
    {"pipelines": pipelines, "litserve": litserve}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])
