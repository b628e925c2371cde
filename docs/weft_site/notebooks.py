"""Notebooks: run them, keep what they print, and turn them into pages of the site."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PICTURES = {"image/svg+xml": "svg", "image/png": "png"}


def read_notebook(file: Path) -> dict[str, Any]:
    """Return a notebook's JSON."""
    notebook: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return notebook


def notebook_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, str]]:
    """Return the page of a notebook (Markdown), and its pictures by file name (SVG).

    A cell's output follows its code, in a block with the class `output`.

    Args:
        notebook: its JSON, with outputs.
        name: the beginning of the pictures' names.
    """
    parts: list[str] = []
    pictures: dict[str, str] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        language = "bash" if source.startswith("%%bash") else "python"
        if source.startswith("%%writefile"):
            language = "yaml"
            source = "# " + source.removeprefix("%%writefile ")  # the file's name, as its first line
        parts.append(f"```{language}\n{source.removeprefix('%%bash').strip()}\n```")
        for output in cell["outputs"]:
            text = printed(output)
            if text:
                parts.append(f"```{{code-block}} none\n:class: output\n\n{text}\n```")
            drawing = output.get("data", {}).get("image/svg+xml")
            if drawing:
                file = f"{name}-{len(pictures) + 1}.svg"
                pictures[file] = "".join(drawing)
                parts.append(f"![what the cell above draws]({file})")
    return "\n\n".join(parts) + "\n", pictures


def printed(output: dict[str, Any]) -> str:
    """Return what an output prints, as plain text; empty for a picture."""
    if output["output_type"] == "stream":
        text = "".join(output["text"])
    elif output["output_type"] == "error":
        text = "\n".join(output["traceback"])
    elif any(kind in output["data"] for kind in PICTURES):
        return ""
    else:
        text = "".join(output["data"].get("text/plain", ""))
    # of a line that was written over (a progress bar), the last state is what is seen
    lines = [line.rpartition("\r")[2] for line in COLOURS.sub("", text).split("\n")]
    return "\n".join(lines).rstrip()


def run_notebook(file: Path, folder: Path, timeout: int = 600) -> dict[str, Any]:
    """Run a notebook from top to bottom, in a folder of its own, and return it with its outputs.

    Args:
        file: the notebook.
        folder: the working folder of its cells.
        timeout: seconds that one cell may take.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    import weft

    variables = {
        # `weft` in a cell is the command that is installed beside this Python, and the weft of this process
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(Path(weft.__file__).resolve().parents[1]),
        "PYTHONWARNINGS": "ignore",  # what other packages warn of names files of this machine
    }
    client.execute(env=os.environ | variables)
    return tidy(json.loads(nbformat.writes(notebook)))


def tidy(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook without what differs from run to run."""
    for number, cell in enumerate(notebook["cells"], 1):
        cell["metadata"] = {key: value for key, value in cell["metadata"].items() if key == "tags"}
        cell["id"] = f"cell-{number}"
        if cell["cell_type"] == "code":
            cell["outputs"] = _joined(cell["outputs"])
    counter = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            counter += 1
            cell["execution_count"] = counter
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = counter
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One stream per cell: how often a program flushes is not kept."""
    streams = [text for one in outputs if one["output_type"] == "stream" for text in one["text"]]
    text = printed({"output_type": "stream", "text": streams})
    rest = [one | {"metadata": {}} for one in outputs if one["output_type"] != "stream"]
    stream = {"name": "stdout", "output_type": "stream", "text": (text + "\n").splitlines(keepends=True)}
    return [*([stream] if text else []), *rest]


def write_notebook(notebook: dict[str, Any], file: Path) -> None:
    """Write a notebook as JSON, with a stable order of keys."""
    file.write_text(
        json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
    )
