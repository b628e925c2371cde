"""Every method: `--to peft` writes a folder, or refuses, as the table of docs/exporting.md says."""

from __future__ import annotations

import pytest

from tests.conformance.cases import shared
from tests.support.exported import exact_methods
from weft.errors import WeftError
from weft.interop import export_peft
from weft.interop.peft.export import CONFIG_FILE

EXACT = exact_methods("peft")


@pytest.mark.parametrize("method", EXACT)
def test_a_method_is_written_or_refused(method, tmp_path):
    model, folder = shared(method, "bert"), tmp_path / "x"
    if EXACT[method]:
        export_peft(model, "b", folder)
        assert (folder / CONFIG_FILE).is_file()
    else:
        with pytest.raises(WeftError, match="cannot be exported to PEFT"):
            export_peft(model, "b", folder)
        assert not folder.exists()
