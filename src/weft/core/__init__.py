"""Which parameters a row uses: routes, stacked parameters, and the layout of rows and examples."""
