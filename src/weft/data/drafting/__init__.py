"""Drafting tasks from data files: formats, splits, text and label columns, kinds and labels are guessed."""
