"""A worker process: it predicts partitions one after another, as `python -m weft.corpora.worker`.

It reads jobs from its standard input, one line of JSON each, and writes the messages of `weft.corpora.work`
to its standard output. When its standard input ends, the caller is gone or wants no more, and the worker ends
at once: a file that is not complete has a temporary name, and is removed by the next call.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from weft.corpora.job import Job
from weft.corpora.work import Work
from weft.errors import command_line
from weft.utils.out_of_memory import memory_message, ran_out_of_memory


def main() -> None:
    """Predict partitions until there are no more."""
    out = os.fdopen(os.dup(1), "w")
    jobs: queue.Queue[Job] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    _to_log(os.devnull)  # whatever prints must not reach the caller
    work: Work | None = None

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message, default=str) + "\n")
        out.flush()

    while True:
        job = jobs.get()
        _to_log(job.log or os.devnull)
        try:
            work = work or Work(own_device(job.settings.device))
            with command_line():  # messages name the options of `weft predict`
                for message in work.run(job):
                    send(message)
        except Exception as wrong:
            traceback.print_exc()
            send({"failed": reason(wrong, job), "broken": True})


def reason(wrong: Exception, job: Job) -> str:
    """Why a partition failed, if nobody foresaw it."""
    if ran_out_of_memory(wrong):
        return f"{job.partition.input}: out of memory: {memory_message(wrong)}"
    log = f" (see {job.log})" if job.log else ""
    return f"{job.partition.input}: {type(wrong).__name__}: {wrong}{log}"


def own_device(device: str | None) -> str | None:
    """The GPU of this worker, by its number; None: the device of the settings."""
    if device not in (None, "cuda"):
        return None
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cuda:{int(os.environ.get('WEFT_WORKER', '0')) % count}" if count else None


def _listen(jobs: queue.Queue[Job]) -> None:
    for line in sys.stdin:
        jobs.put(Job.from_json(line))
    os._exit(0)


def _to_log(path: str) -> None:
    """Send everything that is printed to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


if __name__ == "__main__":
    main()
