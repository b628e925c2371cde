"""Arrays that are written piece by piece: the same bytes as `np.save` writes."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data.tokens.npy_pieces import save_pieces


@pytest.mark.parametrize("sizes", [(0,), (1,), (7, 0, 93), (9, 1), (99_999, 1), (3,) * 50])
def test_the_files_are_those_of_numpy(tmp_path, sizes):
    draw = np.random.default_rng(1)
    types = {"ids": np.int32, "types": np.int8, "offsets": np.int64}
    pieces = [{name: draw.integers(0, 100, size).astype(np.int64) for name in types} for size in sizes]
    lengths = save_pieces(tmp_path, pieces, types)
    for name, kind in types.items():
        whole = np.concatenate([piece[name] for piece in pieces]).astype(kind)
        np.save(tmp_path / "expected.npy", whole)
        assert (tmp_path / f"{name}.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
        assert lengths[name] == len(whole)
