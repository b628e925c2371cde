"""The plan of a run: which examples each step trains on."""
