"""The engine of a server: a model, its tasks and the batcher. It knows nothing of HTTP."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from weft.acceleration.packed_maps import pack_if_faster
from weft.bundle.load import load_changed
from weft.bundle.manifest import bundle_sha256, find_bundle, read_bundle
from weft.errors import WeftError, words
from weft.inference.precision import Precision
from weft.interop.onnx.backend import backend_of
from weft.model.threads import in_eval
from weft.serving.batching.answerer import Observer
from weft.serving.batching.batcher import Batcher
from weft.serving.batching.ticket import Ticket
from weft.serving.batching.tuning import Tuned, tuned
from weft.serving.batching.worker import Worker
from weft.serving.interface import State
from weft.serving.onnx import onnx_model
from weft.serving.questions.predict_questions import predict_questions
from weft.serving.questions.sample_requests import sample_request
from weft.serving.request_log import log, log_error
from weft.serving.tasks.live_bundle import LiveBundle
from weft.serving.tasks.served_tasks import ServedTasks
from weft.serving.tasks.slots import check_slot, fill_slot, free_slot, owners_of, spare_tasks
from weft.utils.devices import device_of
from weft.utils.garbage import settle
from weft.utils.heap import GiveBack

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.serving.settings import ServeSettings

SWITCH = 0.0005
"""Seconds that a thread may hold Python's lock while others wait for it. The model's thread gives it up at
every call into torch; with Python's default, 0.005, a busy HTTP thread kept it waiting at each of them."""


class Engine:
    """Loads a bundle, answers tickets, and changes tasks while it runs.

    Args:
        bundle: the folder of a bundle, of a run or of an export to ONNX, or a model.
        settings: the settings of the server.
        observer: what the batcher reports to.

    Attributes:
        state: `loading`, then `ready`, then `stopping`; or `failed`, if the model could not be loaded.
        error: why it could not.
        tuned: what was measured about the machine.
    """

    def __init__(self, bundle: Any, settings: ServeSettings, observer: Observer) -> None:
        self.settings, self._observer = settings, observer
        self._bundle = bundle
        self.state: State = "loading"
        self.error: BaseException | None = None
        self._batcher: Batcher | None = None
        self._live: LiveBundle | None = None
        self._owners: list[str] = []
        self._changing = threading.Lock()
        self.tuned = Tuned(1)
        self._give_back: GiveBack | None = None
        self.loaded_s = 0.0

    def load(
        self,
        tell: Callable[[str], None] = lambda line: None,
        wake: Callable[[list[Ticket]], None] | None = None,
    ) -> None:
        """Load the model, run it once, and become ready.

        Args:
            tell: called with a line for each step that takes a while.
            wake: as in `Batcher`, for all tickets but those of the first passes.
        """
        began = time.monotonic()
        try:
            tell("loading the model")
            model, served = self._loaded()
            tell("warming up")
            self.tuned = tuned(model, self.settings.threads)
            batcher = Batcher(
                self._worker(model),
                served,
                self._observer,
                self.settings.queue,
                lanes=self.tuned.lanes,
                begin=self._begin_lane,
            )
            self._batcher = batcher
            self._warm_up(batcher)
            batcher.wake = wake or batcher.wake
            settle()
            sys.setswitchinterval(SWITCH)
        except BaseException as error:
            self.state, self.error = "failed", error
            raise
        self.loaded_s = time.monotonic() - began
        if self.device == "cpu":
            self._give_back = GiveBack()
        if self.state == "loading":
            self.state = "ready"

    def load_logged(self, wake: Callable[[list[Ticket]], None]) -> None:
        """Load the model, and write to the log what happens; `error` says whether it failed.

        Args:
            wake: as in `load`.
        """
        with suppress(Exception):
            self.load(lambda step: log("start", step=step), wake)
        if self.error is None:
            about = {"device": self.device, "lanes": self.tuned.lanes, "threads": self.tuned.threads}
            log("ready", seconds=round(self.loaded_s, 2), **about, tokens=self.queue.worker.tokens)
        elif not isinstance(self.error, WeftError):
            log_error("failed", self.error)

    @property
    def served(self) -> ServedTasks:
        """The tasks that are served now."""
        return self.queue.served

    @property
    def batcher(self) -> Batcher | None:
        """Answers tickets; None while the model is being loaded."""
        return self._batcher

    @property
    def queue(self) -> Batcher:
        """The batcher of an engine that is ready."""
        assert self._batcher is not None
        return self._batcher

    @property
    def device(self) -> str:
        """The device of the model."""
        return str(next(self.queue.worker.model.parameters()).device)

    def _begin_lane(self) -> None:
        torch.set_num_threads(self.tuned.threads)  # a setting of each thread

    def put_task(self, name: str, contents: bytes) -> bool:
        """Add a task, or replace one, while the server runs; returns whether the model was loaded again.

        Args:
            name: the name of the task.
            contents: the task's file.
        """
        with self._changing:
            live, batcher = self._changeable()
            before = live.contents(name)
            task, tensors = live.put(name, contents)
            try:
                model, served = batcher.worker.model, batcher.served
                slot = served.ids.get(name)
                if slot is None or model.tasks[slot].head != task.head:
                    slot = free_slot(model.tasks, set(served.ids.values()), task)
                if slot is None or model.method.separate:
                    self._reload(live, batcher)
                    return True
                owner = self._owners[slot]
                check_slot(model, owner, tensors)

                def copy() -> None:
                    fill_slot(model, slot, owner, task, tensors)
                    batcher.served = batcher.served.with_task(slot, task, live.sha256)

                batcher.between_batches(copy).result()
            except BaseException:
                live.restore(name, before)
                raise
            return False

    def remove_task(self, name: str) -> None:
        """Remove a task while the server runs; its slot can take a new one."""
        with self._changing:
            live, batcher = self._changeable()
            batcher.served.id_of(name, "task")
            if len(batcher.served.ids) == 1:
                raise WeftError(f"{name!r} is the only task; add another one first, or stop the server")
            live.remove(name)

            def remove() -> None:
                batcher.served = batcher.served.without_task(name, live.sha256)

            batcher.between_batches(remove).result()

    def close(self) -> None:
        """Answer what is waiting, then stop."""
        self.state = "stopping"
        if self._give_back is not None:
            self._give_back.close()
        if self.batcher is not None:
            self.batcher.close()
        if self._live is not None:
            self._live.close()

    def _loaded(self) -> tuple[Model, ServedTasks]:
        from weft.model.model import Model

        settings = self.settings
        if isinstance(self._bundle, Model):
            if settings.admin:
                raise WeftError(
                    "admin: tasks can be changed only if a bundle's folder is served; found a Model"
                )
            model = in_eval(self._bundle)
            return self._finished(model), self._table(model, "model")
        if backend_of(self._bundle, settings.backend) == "onnx":
            model, sha256 = onnx_model(self._bundle, settings)
            # a graph has no encoder without adapters
            return model, replace(self._table(model, sha256), embeds_alone=False)
        folder: Path = find_bundle(self._bundle)
        sha256 = bundle_sha256(folder) or ""
        if settings.admin:
            self._live = LiveBundle(folder)
            folder = self._live.folder
        return self._of_folder(folder, sha256)

    def _of_folder(self, folder: Path, sha256: str) -> tuple[Model, ServedTasks]:
        settings = self.settings
        manifest, tasks = read_bundle(folder, verify=False)
        method = manifest["method"]
        separate = "separate" in (method.get("use"), method) if isinstance(method, dict) else False
        spares = spare_tasks(list(tasks.values()), settings.spare) if settings.admin and not separate else []
        device = device_of(settings.device)
        if settings.precision == "int8":
            device = "cpu"
        model = load_changed(folder, added=spares, encoder=settings.encoder, device=device)
        self._owners = owners_of(model.tasks)
        if self.settings.precision == "float32":
            pack_if_faster(model.eval())  # nobody else has this model, so its encoder never changes
        return self._finished(model), self._table(model, sha256, len(tasks))

    def _finished(self, model: Model) -> Model:
        """The model in the precision of the settings, with captured passes on a GPU."""
        if self.settings.precision == "int8":
            from weft.model.transforms.quantize import quantize

            return quantize(model)
        if next(model.parameters()).device.type == "cuda" and not model.method.separate:
            model.capture(precision=self._precision or "float32")
        return model

    @property
    def _precision(self) -> Precision | None:
        return "bf16" if self.settings.precision == "bf16" else None

    def _worker(self, model: Model) -> Worker:
        tokens = self.settings.tokens or self.tuned.tokens
        return Worker(model, self._precision, tokens, self.tuned.overhead)

    def _table(self, model: Model, sha256: str, count: int | None = None) -> ServedTasks:
        tasks = model.tasks[:count]
        ids = {task.name: number for number, task in enumerate(tasks)}
        return ServedTasks(model.tasks, ids, [0] * len(model.tasks), 0, sha256)

    def _changeable(self) -> tuple[LiveBundle, Batcher]:
        if self._live is None or self.batcher is None:
            raise WeftError(f"this server does not change its tasks; set {words('--admin', 'admin=True')}")
        return self._live, self.batcher

    def _reload(self, live: LiveBundle, batcher: Batcher) -> None:
        """Load the changed bundle beside the served model, and put it into its place between two batches."""
        owners = self._owners
        try:
            model, served = self._of_folder(live.folder, live.sha256)
        except BaseException:
            self._owners = owners
            raise
        # every version is new: questions that were read for the former model are read again
        newest = max(batcher.served.versions) + 1
        version = batcher.served.version + 1
        served = replace(served, versions=[newest] * len(served.tasks), version=version)

        def swap() -> None:
            batcher.worker, batcher.served = self._worker(model), served

        batcher.between_batches(swap).result()
        settle()  # the former model was left out of collections

    def _warm_up(self, batcher: Batcher) -> None:
        """Answer the example request of every task once; of more than 64 tasks, those of the first 64."""
        served = batcher.served
        settings = replace(self.settings, characters=10_000)
        for number in list(served.ids.values())[:64]:
            done = threading.Event()
            questions = predict_questions(sample_request(served.tasks[number]), served, settings)
            ticket = Ticket(questions, 3600.0, done.set)
            batcher.submit(ticket)
            done.wait()
            if ticket.error is not None:
                raise WeftError(f"the model cannot answer an example request: {ticket.error}")
