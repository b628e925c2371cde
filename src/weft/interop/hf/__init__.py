"""Exporting one task as a folder that the classes and pipelines of transformers load."""
