"""Growing a trained model: a task more, a task trained again, and where a new task begins."""
