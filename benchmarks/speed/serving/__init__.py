"""Serving: `weft serve` beside offline `predict`, one Hugging Face pipeline per task, and LitServe."""
