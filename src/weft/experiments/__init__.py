"""Many runs: grids, their cells and records, statistics, claims and recipes (`weft compare`)."""
