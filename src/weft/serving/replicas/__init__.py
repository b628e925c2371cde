"""Several replicas of a server on Ray, which share the changes of their tasks."""
