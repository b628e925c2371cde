"""Checks of the data of tasks before training."""
