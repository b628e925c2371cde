"""Readers of rows, one per file format."""
