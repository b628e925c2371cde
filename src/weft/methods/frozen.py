"""`frozen`: the encoder is frozen, and only the heads train."""

from weft.methods.method import Method


class Frozen(Method):
    """No adapters, and the encoder does not train (linear probing)."""

    name = "frozen"
