"""Checkpoints of BERT-n-PALs."""
