"""Joining Ray: users' mistakes, and what workers are told. Clusters are started in tests of the commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.support.paths import ROOT
from weft.errors import WeftError, command_line
from weft.utils import ray_start
from weft.utils.ray_start import (
    import_paths,
    import_ray,
    ray_cluster,
    refuse_without_ray,
    runtime_environment,
)


def test_a_missing_package_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with command_line(), pytest.raises(WeftError, match=r"--on ray needs the package 'ray': .*weft\[ray\]"):
        import_ray()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nowhere", "expected HOST:PORT"),
        (":6379", "expected HOST:PORT"),
        ("localhost:port", "expected HOST:PORT"),
        ("localhost:70000", "expected HOST:PORT"),
        ("ray://localhost:10001", "Ray's client is not supported"),
    ],
)
def test_a_bad_address_is_refused_at_once(address, message):
    pytest.importorskip("ray")
    with command_line(), pytest.raises(WeftError, match=f"--address .*{message}"), ray_cluster(address):
        pass


def test_an_address_at_which_nothing_answers_is_refused():
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with command_line(), pytest.raises(WeftError, match=r"nothing answers .*ray start --head"):  # noqa: SIM117
            with ray_cluster(address):
                pass


def test_auto_needs_a_cluster(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_start, "_running", lambda: None)
    with command_line(), pytest.raises(WeftError, match="no Ray cluster runs on this machine"):  # noqa: SIM117
        with ray_cluster("auto"):
            pass


class Unable:
    """Ray, at an address that refuses it."""

    class exceptions:
        class RayError(Exception):
            pass

    def __init__(self, wrong: Exception) -> None:
        self.wrong = wrong

    def init(self, **settings: object) -> None:
        raise self.wrong

    def shutdown(self) -> None:
        pass


def test_a_cluster_with_a_token_is_the_likely_cause_if_something_answers():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with command_line(), pytest.raises(WeftError, match=r"cannot join .*: no; .*RAY_AUTH_MODE=token"):
            ray_start._connect(Unable(ConnectionError("no")), address, None)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (Unable.exceptions.RayError("no authentication token was found"), "RAY_AUTH_MODE=token"),
        (RuntimeError("no"), "ray start --head"),
    ],
)
def test_ray_naming_a_token_decides_on_the_advice(wrong, advice):
    with command_line(), pytest.raises(WeftError, match=advice) as refused:
        ray_start._connect(Unable(wrong), "local", None)
    assert ("RAY_AUTH_MODE" in str(refused.value)) == ("RAY_AUTH_MODE" in advice)


def test_workers_import_the_same_weft(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}relative")
    monkeypatch.chdir(tmp_path)
    paths = import_paths()["PYTHONPATH"].split(os.pathsep)
    assert paths == [str(Path(weft.__file__).resolve().parents[1]), str(tmp_path / "relative")]
    environment = runtime_environment({"OMP_NUM_THREADS": "1"})
    assert set(environment) == {"env_vars"}, "nothing is uploaded"
    assert environment["env_vars"]["OMP_NUM_THREADS"] == "1"
    assert environment["env_vars"]["RAY_USAGE_STATS_ENABLED"] == "0"


def test_options_of_ray_need_on_ray():
    refuse_without_ray("ray", {"--address": "x"})
    refuse_without_ray(None, {"--address": None})
    with pytest.raises(WeftError, match="--address needs --on ray"):
        refuse_without_ray(None, {"--address": "x"})
    with pytest.raises(WeftError, match="--on spark: unknown; expected ray"):
        refuse_without_ray("spark", {})


SCRIPT = """
import sys
import weft.cli.app, weft.utils.ray_start, weft.experiments.run_grid, weft.experiments.compare
import weft.serving.server, weft.serving.http.application, weft.workflows.predict
assert not [name for name in sys.modules if name == "ray" or name.startswith("ray.")]
"""


@pytest.mark.slow
def test_nothing_of_ray_is_imported_without_it():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
