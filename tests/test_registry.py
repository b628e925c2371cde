import pytest

from weft.errors import WeftError
from weft.registry import Registry


def test_lookup_is_lazy_and_names_are_guessed():
    table = Registry("method", {"good": "weft.errors:WeftError", "bad": "weft.no_such_module:Nothing"})
    assert table["good"] is WeftError
    assert sorted(table) == ["bad", "good"]  # listing imports nothing
    with pytest.raises(
        WeftError, match=r"method 'godo' does not exist; did you mean 'good'\? known: bad, good"
    ):
        table["godo"]
    with pytest.raises(WeftError, match="known: bad, good"):
        table["zzz"]
    with pytest.raises(ModuleNotFoundError):
        table["bad"]


def test_registering():
    table: Registry[object] = Registry("method", {})
    table.register("mine", dict)
    assert table["mine"] is dict
    with pytest.raises(WeftError, match="registered already"):
        table.register("mine", list)
