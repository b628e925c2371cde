"""int8: linear maps as products of integers, with a scale of its own for every token.

    y = W·x ≈ s·S·(Q·q),   W[o] = S_o·Q_o with one scale per output,   x = s·q with one scale per token

One scale for all of x, as in onnxruntime's dynamic quantization, would be faster, but then an answer depends
on the company in its batch: one large value in one text makes the steps of all others coarse.

Only products with a constant matrix are quantized. Adapters and heads look up their maps by the row's task,
so they stay in float32, and so do the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto

MOST_X, MOST_W = 127, 63
"""The largest |q| and |Q|. Weights have 7 bits: CPUs without 32-bit sums of products (before AVX-512 VNNI)
add pairs in 16 bits, which 8 bits would overflow, and the file is for any CPU."""
ZERO = 128
"""The unsigned byte that means 0: products of unsigned with signed bytes are the fast ones."""
TINY = 1e-20
"""The least scale, for tokens of zeros."""


def quantize(proto: ModelProto) -> ModelProto:
    """Return a copy of a graph with int8 products; it is not changed.

    Args:
        proto: a float32 graph.
    """
    from onnx import ModelProto, numpy_helper

    quantized = ModelProto()
    quantized.CopyFrom(proto)
    graph = quantized.graph
    maps = {each.name: each for each in graph.initializer if len(each.dims) == 2 and each.data_type == 1}
    work = _Rewriting()
    for node in graph.node:
        if (node.op_type == "MatMul" or _is_linear(node)) and node.input[1] in maps:
            work.replace(node, numpy_helper.to_array(maps[node.input[1]]))
        else:
            work.nodes.append(node)
    used = {name for node in work.nodes for name in node.input}
    constants = [each for each in graph.initializer if each.name in used]
    constants += [numpy_helper.from_array(value, name) for name, value in work.constants.items()]
    nodes = list(work.nodes)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    return quantized


def _is_linear(node: NodeProto) -> bool:
    """Whether a Gemm is x·W + b or x·Wᵀ + b."""
    from onnx import helper

    if node.op_type != "Gemm":
        return False
    settings = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return (settings.get("alpha", 1.0), settings.get("beta", 1.0), settings.get("transA", 0)) == (1.0, 1.0, 0)


class _Rewriting:
    """The nodes and constants of the new graph. What several maps read is quantized once."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._read: set[str] = set()

    def replace(self, node: NodeProto, weight: NDArray[np.float32]) -> None:
        """Add the nodes that compute a map by integers.

        Args:
            node: the product, MatMul or Gemm.
            weight: its matrix, as stored.
        """
        x, name, *bias = node.input
        transposed = any(each.name == "transB" and each.i for each in node.attribute)
        if transposed:
            weight = weight.T
        scale = np.maximum(np.abs(weight).max(0), TINY) / MOST_W  # [o]
        stored = f"{name}.int8{'.transposed' if transposed else ''}"
        self.constants[stored] = np.rint(weight / scale).astype(np.int8)
        self.constants[f"{stored}.scale"] = scale.astype(np.float32)
        if x not in self._read:
            self._read.add(x)
            self._read_integers(x)
        y = node.output[0]
        self._add(
            "MatMulInteger", [f"{x}.int8", stored, self._constant("weft.zero", np.uint8(ZERO))], f"{y}.sums"
        )
        self._add("Cast", [f"{y}.sums"], f"{y}.floats", to=1)
        self._add("Mul", [f"{y}.floats", f"{stored}.scale"], f"{y}.scaled")
        self._add("Mul", [f"{y}.scaled", f"{x}.scale"], f"{y}.product" if bias else y)
        if bias:
            self._add("Add", [f"{y}.product", bias[0]], y)

    def _read_integers(self, x: str) -> None:
        """s = max |x| / 127 per token, and q = round(x / s) + 128."""
        axes = self._constant("weft.axes", np.array([-1]))
        self._add("Abs", [x], f"{x}.abs")
        self._add("ReduceMax", [f"{x}.abs", axes], f"{x}.most", keepdims=1)
        self._add("Max", [f"{x}.most", self._constant("weft.tiny", np.float32(TINY))], f"{x}.range")
        # a maximum may overlook NaN; a sum does not
        self._add("ReduceSum", [x, axes], f"{x}.sum", keepdims=1)
        self._add("Mul", [f"{x}.sum", self._constant("weft.none", np.float32(0))], f"{x}.none")
        self._add("Add", [f"{x}.range", f"{x}.none"], f"{x}.finite")
        self._add("Div", [f"{x}.finite", self._constant("weft.most", np.float32(MOST_X))], f"{x}.scale")
        self._add("Div", [x, f"{x}.scale"], f"{x}.steps")
        one, zero = self._constant("weft.one", np.float32(1)), self._constant("weft.zero", np.uint8(ZERO))
        self._add("QuantizeLinear", [f"{x}.steps", one, zero], f"{x}.int8")

    def _constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def _add(self, kind: str, inputs: list[str], output: str, **settings: int) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}/{kind}", **settings))
