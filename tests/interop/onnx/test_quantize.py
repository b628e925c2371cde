"""int8 graphs: products of integers near those of floats, and no token's answer depends on another token."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from weft.interop.onnx.quantize import MOST_W, MOST_X, quantize

IN, OUT = 5, 3
WEIGHT = np.random.default_rng(1).normal(size=(IN, OUT)).astype(np.float32)
BIAS = np.float32([0.5, -1.0, 2.0])
VALUES = st.floats(-100, 100, width=32)
TEXTS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 3), st.just(IN)), elements=VALUES)


def graph_of(kind):
    """A graph with one map: `MatMul`, or `Gemm` with or without a transposed matrix."""
    shape = ["R", "L", IN] if kind == "MatMul" else ["R", IN]
    constants = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(BIAS, "b")]
    if kind == "MatMul":
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    else:
        transposed = kind == "Gemm, transposed"
        if transposed:
            constants[0] = numpy_helper.from_array(WEIGHT.T.copy(), "w")
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=int(transposed))]
    x, y = (helper.make_tensor_value_info(*each) for each in (("x", 1, shape), ("y", 1, [*shape[:-1], OUT])))
    graph = helper.make_graph(nodes, "one map", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def session_of(proto):
    return InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


KINDS = ("MatMul", "Gemm", "Gemm, transposed")
SESSIONS = {kind: session_of(quantize(graph_of(kind))) for kind in KINDS}


def by_hand(x):
    """The sums of integers that the graph computes, in float64."""
    scale = np.maximum(np.abs(WEIGHT).max(0), 1e-20) / MOST_W
    steps = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-20).astype(np.float64) / MOST_X
    return np.rint(x / steps) @ np.rint(WEIGHT / scale).astype(np.float64) * scale * steps + BIAS


@pytest.mark.parametrize("kind", KINDS)
@given(x=TEXTS)
def test_a_map_is_a_product_of_integers(kind, x):
    x = x if kind == "MatMul" else x[:, 0]
    (y,) = SESSIONS[kind].run(None, {"x": x})
    exact = x.astype(np.float64) @ WEIGHT + BIAS
    # half a step of each token's scale in x, half a step of each output's scale in W
    most = np.abs(x).max(-1, keepdims=True)
    near = most / MOST_X / 2 * np.abs(WEIGHT).sum(0) + IN * most * np.abs(WEIGHT).max(0) / MOST_W / 2 * 1.01
    assert np.all(np.abs(y - exact) <= near + 1e-4)
    # a value between two steps may be rounded to either, which is one step of one input
    one_step = most / MOST_X * np.abs(WEIGHT).max(0)
    assert np.all(np.abs(y - by_hand(x)) <= one_step + 1e-4)


@given(x=TEXTS, other=TEXTS)
def test_no_token_depends_on_its_company(x, other):
    (alone,) = SESSIONS["MatMul"].run(None, {"x": x[:1]})
    length = max(x.shape[1], other.shape[1])
    pad = lambda rows: np.pad(rows, ((0, 0), (0, length - rows.shape[1]), (0, 0)))  # noqa: E731
    (together,) = SESSIONS["MatMul"].run(None, {"x": np.concatenate([pad(1000 * other), pad(x[:1])])})
    np.testing.assert_array_equal(together[-1, : x.shape[1]], alone[0])


def test_a_token_that_is_not_finite_spoils_itself_alone():
    x = np.ones((1, 3, IN), np.float32)
    x[0, 1, 2] = np.nan
    (y,) = SESSIONS["MatMul"].run(None, {"x": x})
    assert np.isnan(y[0, 1]).all()
    assert np.isfinite(y[0, [0, 2]]).all()


def test_the_graph_that_is_quantized_is_not_changed():
    proto = graph_of("MatMul")
    before = proto.SerializeToString()
    onnx.checker.check_model(quantize(proto), full_check=True)
    assert proto.SerializeToString() == before


def test_what_is_no_map_stays():
    """A matrix that is looked up, a scaled Gemm and a matrix that something else reads too."""
    proto = graph_of("MatMul")
    proto.graph.node.append(helper.make_node("Gemm", ["rows", "w"], ["other"], alpha=2.0))
    proto.graph.node.append(helper.make_node("Shape", ["w"], ["sizes"]))
    proto.graph.input.append(helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["R", IN]))
    small = quantize(proto)
    assert [n.op_type for n in small.graph.node].count("MatMulInteger") == 1
    assert "w" in [each.name for each in small.graph.initializer]


def test_what_several_maps_read_is_quantized_once():
    proto = graph_of("MatMul")
    proto.graph.node.append(helper.make_node("MatMul", ["x", "w"], ["again"]))
    kinds = [node.op_type for node in quantize(proto).graph.node]
    assert (kinds.count("MatMulInteger"), kinds.count("QuantizeLinear")) == (2, 1)
