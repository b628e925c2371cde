"""`frozen`: the encoder as it is, heads alone trained."""

from weft.methods.method import Method


class Frozen(Method):
    """No adapters and nothing of the encoder trains (linear probing)."""

    name = "frozen"
