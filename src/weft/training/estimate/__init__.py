"""How long a run takes, and how much memory."""
