"""Optimizers, schedules, clipping and what trains."""
