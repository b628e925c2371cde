"""Looking into a model: what its adapters do with a text."""
