"""Reversible patches that make a model faster, compiled pieces and CUDA graphs."""
