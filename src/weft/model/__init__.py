"""The model: heads, pooling, losses, ownership, and what is counted or made of it."""
