"""Experiments whose results the documentation states."""
