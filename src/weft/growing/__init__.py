"""Growing a trained model: adding a task, retraining a task, and the initial values of a new task."""
