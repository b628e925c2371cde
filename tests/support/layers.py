"""The order of the rooms."""

from __future__ import annotations

LAYERS = [
    *("errors", "registry", "settings", "utils", "kernels", "core", "encoder", "adapters", "methods"),
    *("metrics", "tasks", "data", "suites", "sampling", "facade", "model", "acceleration", "inference"),
    *("bundle", "evaluation", "training", "growing", "interop", "analysis", "config", "workflows"),
    *("experiments", "corpora", "reporting", "serving", "hub", "cli", "__init__", "__main__"),
]
"""From the lowest to the highest. A module imports from its own room and from lower ones only."""
