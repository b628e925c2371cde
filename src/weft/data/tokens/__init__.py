"""Token ids of rows, and their cache."""
