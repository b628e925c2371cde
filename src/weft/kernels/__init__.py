"""Matrix products for rows of several tasks, attention over short rows, hash-based dropout."""
