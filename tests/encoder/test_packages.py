"""Built-in encoders: where they are, and what is said if they are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.encoder.load import check_reachable, load_encoder, load_tokenizer
from weft.encoder.packages import PACKAGES, WEIGHTS, Fetched, package_folder
from weft.errors import WeftError
from weft.utils.checksums import file_sha256


def test_the_files_of_minilm_are_where_the_table_says():
    source = load_encoder("minilm").source
    assert source is not None
    assert file_sha256(Path(source) / WEIGHTS) == PACKAGES["minilm"].sha256


@pytest.mark.parametrize("name", [name for name, package in PACKAGES.items() if isinstance(package, Fetched)])
def test_the_command_that_fetches_is_named_before_anything_is_loaded(name, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    for load in (check_reachable, load_encoder, load_tokenizer, package_folder):
        with pytest.raises(
            WeftError, match=rf"not on this machine \(404 MB.*type: weft encoder fetch {name}$"
        ):
            load(name)
    (tmp_path / "encoders" / name).mkdir(parents=True)
    with pytest.raises(WeftError, match=rf"{WEIGHTS} is missing; type: weft encoder fetch {name}"):
        check_reachable(name)


def test_every_hash_is_a_sha256():
    for package in PACKAGES.values():
        hashes = [*package.files.values(), *([package.zip_sha256] if isinstance(package, Fetched) else [])]
        assert all(len(bytes.fromhex(value)) == 32 for value in hashes)
