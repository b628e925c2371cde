"""Training, validation and test rows of a task."""
