"""Checkpoints of CA-MTL."""
