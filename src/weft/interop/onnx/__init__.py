"""ONNX: one graph that answers every task of a model, and its use with onnxruntime."""
