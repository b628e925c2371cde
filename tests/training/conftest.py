import pytest

from tests.support.tiny_run import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run file with its encoder and data."""
    path = tmp_path_factory.mktemp("run")
    write_run(path)
    return path
