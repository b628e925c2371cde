"""Task samplers: how often each task is sampled."""
