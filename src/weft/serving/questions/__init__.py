"""What clients ask: the bodies of POST /v1/predict and /v1/embed, read and checked, and example requests."""
