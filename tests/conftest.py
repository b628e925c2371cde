"""Settings for the whole suite."""

import gc
import os
import sys

# children with two threads on a busy machine would spin for each other
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# numpy's threads, too, would wait for each other by spinning
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from tests.support.more import COLLECTED, LEAVES_OUT, LEFT_OUT, mark_more
from tests.support.no_flush import flush_nothing
from tests.support.no_stacks import note_no_stacks

# two workers on two cores: tiny encoders run faster on one thread each
torch.set_num_threads(1)

flush_nothing()
note_no_stacks()

# timing is no property; the machine may be busy
settings.register_profile("all", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("quick", settings.get_profile("all"), max_examples=15)


def pytest_configure(config):
    """`make test` draws fewer examples of each property. Tests read the profile when they are imported."""
    settings.load_profile("quick" if LEAVES_OUT in config.option.markexpr else "all")


def pytest_collection_finish(session):
    """What is imported by now stays: without it every full collection looks at all of it, a second each."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects by the marks
def pytest_collection_modifyitems(config, items):
    """Tests that need a GPU are skipped where there is none; what repeats a property is marked `more`."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))
    mark_more(items)
    config.stash[COLLECTED] = list(items)
    if LEAVES_OUT in config.option.markexpr:
        config.stash[LEFT_OUT] = sum(item.get_closest_marker("more") is not None for item in items)
        if hasattr(config, "workeroutput"):  # a worker sends it to the main process, which collects nothing
            config.workeroutput["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """All workers collect the same tests, so the number of one of them is that of the run."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter, config):
    """Say what was left out, and how to run it."""
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{left_out} tests were left out that repeat a property in another setting (marker `more`): "
            "`make test-all` runs them"
        )


@pytest.fixture(autouse=True)
def no_fallback(request, monkeypatch):
    """A run that falls back to eager fails its test, unless the test is marked `may_fall_back`."""
    if request.node.get_closest_marker("may_fall_back") is None:
        monkeypatch.setattr("weft.training.step.driver.Driver._give_up", _fail)


def _fail(driver, why, step, say):
    pytest.fail(f"engine {driver.name} gave up in step {step}: {why}")


@pytest.fixture(scope="module", autouse=True)
def no_graphs_of_other_files():
    """Compiled graphs are dropped after each file: dynamo counts those of all models that it has met."""
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@pytest.fixture(scope="module")
def token_cache(tmp_path_factory):
    """A cache of tokens for the tests of one file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def warm_workers():
    """The workers of grids start in milliseconds, for the tests of one file."""
    from tests.support.warm_workers import use_warm_workers

    with pytest.MonkeyPatch.context() as patch:
        use_warm_workers(patch)
        yield
