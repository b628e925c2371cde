"""Small helpers that do not depend on models: files, seeds, random numbers, processes."""
