import pytest

from tests.support.every_kind import write_every_kind


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory):
    """A run file of all kinds: several rows an example, several head shapes."""
    train = {"steps": 4, "batch_size": 14, "max_length": 24, "lr": 0.005, "mixed": True, "log_every": 2}
    return write_every_kind(tmp_path_factory.mktemp("kinds"), train)
