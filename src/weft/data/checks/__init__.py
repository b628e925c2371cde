"""Checking a task's data before it is used."""
