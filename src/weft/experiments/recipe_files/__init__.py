"""The recipes: one YAML file per table or figure of a paper."""
