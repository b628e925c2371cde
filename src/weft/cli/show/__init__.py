"""`weft show`: one file per subcommand that prints facts about a run file, a run or a bundle."""
