"""Optimizers, schedules, gradient clipping, sharding, and which parameters train."""
