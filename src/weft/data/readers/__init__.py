"""Reading rows from files, in every format."""
