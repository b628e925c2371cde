"""weft: one pretrained text encoder, many tasks, a few extra parameters for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.utils.lazy import lazy
from weft.utils.version import __version__ as __version__

if TYPE_CHECKING:
    from weft.bundle.copy_task import copy_task
    from weft.bundle.load import load
    from weft.bundle.one_task import remove_task
    from weft.bundle.start import start_from
    from weft.config.run_file import load_run
    from weft.data.readers.source import Source
    from weft.encoder.load import load_encoder
    from weft.errors import WeftError
    from weft.experiments.compare import compare
    from weft.growing.add import add_task
    from weft.growing.retrain import retrain_task
    from weft.hub.push import push
    from weft.model.model import Model
    from weft.model.output import Output
    from weft.reporting.report import report
    from weft.serving.client import Client
    from weft.suites import load_suite
    from weft.tasks.task import Task
    from weft.training.run.component import Component
    from weft.training.run.ema import Ema
    from weft.training.run.run import Run, train
    from weft.training.settings import Training
    from weft.workflows.assemble import assemble
    from weft.workflows.check import check
    from weft.workflows.evaluate import evaluate

__all__ = [
    "Client",
    "Component",
    "Ema",
    "Model",
    "Output",
    "Run",
    "Source",
    "Task",
    "Training",
    "WeftError",
    "add_task",
    "assemble",
    "check",
    "compare",
    "copy_task",
    "evaluate",
    "load",
    "load_encoder",
    "load_run",
    "load_suite",
    "push",
    "remove_task",
    "report",
    "retrain_task",
    "start_from",
    "train",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Client": "weft.serving.client",
        "Component": "weft.training.run.component",
        "Ema": "weft.training.run.ema",
        "Model": "weft.model.model",
        "Output": "weft.model.output",
        "Run": "weft.training.run.run",
        "Source": "weft.data.readers.source",
        "Task": "weft.tasks.task",
        "Training": "weft.training.settings",
        "WeftError": "weft.errors",
        "add_task": "weft.growing.add",
        "assemble": "weft.workflows.assemble",
        "check": "weft.workflows.check",
        "compare": "weft.experiments.compare",
        "copy_task": "weft.bundle.copy_task",
        "evaluate": "weft.workflows.evaluate",
        "load": "weft.bundle.load",
        "load_encoder": "weft.encoder.load",
        "load_run": "weft.config.run_file",
        "load_suite": "weft.suites",
        "push": "weft.hub.push",
        "remove_task": "weft.bundle.one_task",
        "report": "weft.reporting.report",
        "retrain_task": "weft.growing.retrain",
        "start_from": "weft.bundle.start",
        "train": "weft.training.run.run",
    },
    modules=("adapters", "data", "encoder", "interop", "methods", "sampling", "serving", "tasks"),
)
