"""One export for all tests of the folder."""

from tests.support.exported_onnx import export as export
