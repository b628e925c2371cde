"""int8: onnxruntime's dynamic quantization of the encoder's linear maps.

    y = W·x,  W[o] = s_o·q_o with one scale per output,  x = s·(q − z) with one scale for all of x

Only products with a constant matrix are quantized. Adapters and heads look up their maps by the row's task,
so they stay in float32, and so do the embeddings.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto


def quantize(proto: ModelProto) -> ModelProto:
    """Return a copy of a graph with int8 products; it is not changed.

    The weights have 7 bits: CPUs without 32-bit sums of products (before AVX-512 VNNI) add pairs in 16 bits,
    which 8 bits would overflow, and the file is for any CPU.

    Args:
        proto: a float32 graph.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    before = root.level
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "float32.onnx"), Path(folder, "int8.onnx")
        onnx.save(proto, source, save_as_external_data=True, location="weights")
        root.setLevel(logging.ERROR)  # it advises a preparation that the export has done already
        try:
            quantize_dynamic(
                source,
                target,
                op_types_to_quantize=["MatMul", "Gemm"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                use_external_data_format=True,
            )
        finally:
            root.setLevel(before)
        return onnx.load(target)
