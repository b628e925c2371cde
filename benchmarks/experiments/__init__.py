"""Experiments whose results are reported in the documentation."""
