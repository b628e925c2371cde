"""Products for rows of several tasks, attention over short rows, dropout drawn by a hash."""
