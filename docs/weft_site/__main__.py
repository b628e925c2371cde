"""Build the site, or run the notebooks again.

python docs/weft_site                    the site, in docs/_build/html; a warning is an error
python docs/weft_site --out FOLDER       elsewhere
python docs/weft_site --notebooks        run every notebook and store what it prints, then stop
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "src")]

from weft_site.notebooks import run_notebook, write_notebook  # noqa: E402
from weft_site.stage import ROOT, Stage  # noqa: E402


def build(out: Path) -> int:
    """Write the sources and the pages below `out`; return the exit code of Sphinx."""
    from sphinx.cmd.build import main as sphinx

    source = out / "source"
    Stage(source).write()
    options = ["--builder", "html", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
    code: int = sphinx([*options, "--conf-dir", str(HERE), str(source), str(out / "html")])
    return code


def run_all() -> None:
    """Run the notebooks, each in an empty folder, and store their outputs."""
    for file in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        print(f"running {file.relative_to(ROOT)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            write_notebook(run_notebook(file, Path(folder)), file)


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="docs/weft_site", description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "_build", help="the folder of the site")
    parser.add_argument("--notebooks", action="store_true", help="run the notebooks and store their outputs")
    options = parser.parse_args()
    if options.notebooks:
        run_all()
        return 0
    code = build(options.out)
    if code == 0:
        print(f"the site: {options.out / 'html' / 'index.html'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
