"""The documentation site: the Markdown pages of docs/, the notebooks and a reference of names and commands.

`make docs` builds it. The pages are written for a code host, where their links lead to files. So the site is
not built from docs/ itself: `stage` writes a copy of every page into docs/_build/source, with links that fit
the site, and Sphinx reads that copy. Nothing is downloaded.
"""
