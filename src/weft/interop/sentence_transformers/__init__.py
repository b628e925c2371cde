"""Exporting the embeddings of one task as a folder that sentence-transformers loads."""
