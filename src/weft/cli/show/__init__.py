"""`weft show`: what a run, a bundle or a plan holds."""
