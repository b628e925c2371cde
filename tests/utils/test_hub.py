"""Whether the hub can be reached: one connection, with a time-out; the cache if it cannot."""

import socket
import threading

import pytest
from huggingface_hub import constants

from weft.encoder.load import check_reachable, load_tokenizer
from weft.errors import WeftError
from weft.utils import hub
from weft.utils.hub import data_set_in_cache, hub_problem, offline_if


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(hub, "_answers", {})
    monkeypatch.setattr(hub, "getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_hub_that_accepts_connections_is_reachable(monkeypatch, server):
    """One address of two is enough: here nothing listens on IPv6."""
    monkeypatch.setattr(constants, "ENDPOINT", f"http://localhost:{server}")
    assert hub_problem() is None


def test_the_proxy_is_what_must_be_reached(monkeypatch, server):
    monkeypatch.setattr(constants, "ENDPOINT", "https://no-such-host.invalid")
    monkeypatch.setattr(hub, "getproxies", lambda: {"https": f"http://127.0.0.1:{server}"})
    assert hub_problem() is None


def test_a_refused_connection_has_its_reason_and_is_remembered(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    assert "refused" in (hub_problem() or "")
    monkeypatch.setattr(hub, "_try", lambda endpoint: pytest.fail("a second attempt"))
    assert "refused" in (hub_problem() or "")


def test_a_silent_network_ends_with_the_time_out(monkeypatch):
    """Looking up a name may hang for long: it is not waited for."""
    silence = threading.Event()
    monkeypatch.setenv(hub.VARIABLE, "0.1")
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.example")

    def silent(*address):
        silence.wait(60)
        raise OSError

    monkeypatch.setattr(hub.socket, "getaddrinfo", silent)
    problem = hub_problem()
    silence.set()
    assert problem == "no answer within 0.1 s; to wait longer, set WEFT_HUB_SECONDS=10"


def test_offline_only_inside_and_only_with_a_problem():
    with offline_if(None):
        assert not constants.HF_HUB_OFFLINE
    with offline_if("no network"):
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE


def test_an_encoder_out_of_reach_says_what_to_do(monkeypatch):
    monkeypatch.setattr("weft.encoder.load.hub_problem", lambda: "no network")
    for load in (check_reachable, load_tokenizer):
        with pytest.raises(
            WeftError, match="is not in the cache of Hugging Face, and the hub cannot be"
        ) as wrong:
            load("someone/some-encoder")
        assert "pass the folder of a downloaded model, or use a built-in encoder" in str(wrong.value)
    check_reachable("minilm")
    check_reachable("random:bert-tiny")


def test_an_encoder_in_the_cache_needs_no_hub(monkeypatch):
    monkeypatch.setattr("weft.encoder.load.hub_problem", lambda: pytest.fail("the cache was not looked at"))
    monkeypatch.setattr("weft.encoder.load.model_in_cache", lambda name: True)
    check_reachable("someone/some-encoder")


@pytest.mark.parametrize(
    ("folder", "name", "found"),
    [
        ("stanfordnlp___imdb", "stanfordnlp/imdb", True),
        ("stanfordnlp___imdb", "stanfordnlp/sst2", False),
        ("nyu-mll___glue", "glue/cola", True),
        ("glue", "glue/cola", True),
        ("glue", "super_glue/cb", False),
    ],
)
def test_a_data_set_in_the_cache(tmp_path, monkeypatch, folder, name, found):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    (tmp_path / folder).mkdir()
    assert data_set_in_cache(name) is found
