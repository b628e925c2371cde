"""Importing from and exporting to PEFT."""
