"""Importing checkpoints of CA-MTL."""
