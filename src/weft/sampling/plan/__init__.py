"""The plan of a run: the examples of each step."""
