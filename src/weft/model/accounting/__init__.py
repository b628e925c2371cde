"""Counts of a model: parameters, stored bytes, sparsity."""
