"""Which parameters a row uses: routes, stacked parameters, the layout of blocks."""
