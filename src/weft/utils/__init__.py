"""Small helpers that know nothing of models: files, seeds, random numbers, processes."""
