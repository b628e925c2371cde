"""The tasks that a server offers, and how they come and go: spare slots, a bundle that follows."""
