"""Settings of Sphinx. The sources are those that weft_site.stage has written."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(ROOT / "src")]

from weft_site import docstrings  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = PROJECT["name"]
release = version = PROJECT["version"]
author = copyright = "the authors of weft"
root_doc = "index"
language = "en"
smartquotes = False  # `--out` in a sentence stays what is typed

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# a heading's anchor is the one that a code host makes, so that the links of the pages hold
myst_heading_anchors = 6
# a bare `{x}` or `$x$` in a page means itself
myst_enable_extensions: list[str] = []
highlight_language = "none"
suppress_warnings = [
    "misc.highlighting_failure",  # examples of JSON and YAML with an ellipsis in them
    "ref.python",  # a type `Task` is weft.Task and weft.tasks.Task, which are the same
]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
add_module_names = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "weft"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_logo": "favicon.svg",
    "dark_logo": "favicon.svg",
    "sidebar_hide_name": False,
}


def setup(app):
    """Docstrings become reStructuredText before napoleon (priority 500) reads them."""
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)
    app.connect("doctree-resolved", docstrings.dashes)
