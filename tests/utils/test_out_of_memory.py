"""Running out of memory is a message that says what to lower."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny_run import write_run
from weft.cli import run
from weft.config import load_run
from weft.config.build import model_of
from weft.errors import RunFailed
from weft.utils.out_of_memory import memory_message, out_of_memory_explained, ran_out_of_memory

CUDA = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 "
    "GiB is free. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF"
)


def test_what_is_out_of_memory():
    assert ran_out_of_memory(torch.OutOfMemoryError(CUDA))
    assert ran_out_of_memory(MemoryError())
    assert not ran_out_of_memory(RuntimeError("shapes do not match"))
    assert not ran_out_of_memory(KeyError("memory"))
    assert memory_message(torch.OutOfMemoryError(CUDA)).endswith("of which 1.00 GiB is free.")


def test_the_cpus_own_error_is_one():
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**60)
    assert ran_out_of_memory(error.value)


def test_other_errors_pass():
    with pytest.raises(KeyError), out_of_memory_explained("lower it"):
        raise KeyError
    with pytest.raises(RuntimeError, match="shapes"), out_of_memory_explained("lower it"):
        raise RuntimeError("shapes")


class Fills(weft.Component):
    """Asks for more memory than there is, as a batch that is too large does."""

    name = "fills"

    def after_step(self, done):
        torch.empty(2**60)


@pytest.mark.usefixtures("token_cache")
def test_a_run_says_what_to_lower(tmp_path):
    run_file = load_run(write_run(tmp_path, steps=4))
    with pytest.raises(RunFailed, match=r"lower batch_size \(\d+\) or max_length") as failed:
        weft.train(
            model_of(run_file), run_file.training, tmp_path / "out", progress=False, components=[Fills()]
        )
    assert len(str(failed.value).splitlines()) == 2


def test_a_command_answers_in_two_lines(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("weft.workflows.train.train_run", lambda *args, **kwargs: torch.empty(2**60))
    code = run(["train", str(write_run(tmp_path)), "--out", str(tmp_path / "out")])
    assert code == 1
    printed = capsys.readouterr().err
    assert printed.splitlines()[-2].startswith("out of memory: ")
    assert "Traceback" not in printed
