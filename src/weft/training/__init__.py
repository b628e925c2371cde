"""Training: what happens in a step, and who is moved by it."""
