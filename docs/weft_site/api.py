"""The reference of Python names: one page per section of `weft`, and one per public module."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import weft
from weft.registry import Registry

ONLY_CLASS = ("weft.adapters", "weft.methods")
"""Modules whose classes have the same methods, those of `Adapter` and `Method`: they are shown once."""

SHOWN_WHOLE = ("Adapter", "Method", "RankedAdapter")


def public_modules() -> list[str]:
    """Return the public modules of weft by name, such as `weft.adapters`."""
    return [f"weft.{name}" for name in sorted(set(dir(weft)) - set(weft.__all__))]


def public_names() -> list[str]:
    """Return every public name of Python: those of `weft.__all__` and of the public modules."""
    names = [f"weft.{name}" for name in weft.__all__]
    for module in public_modules():
        names += [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    return names


def reference_pages(sections: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the path and the text (Markdown) of each page of the reference.

    Args:
        sections: the names of `weft` by the title of their section.
    """
    parts = ["# Names in Python", "", INTRODUCTION, "", "## import weft", "", "| | |", "|---|---|"]
    places = []
    for title, names in sections.items():
        place = title.lower().replace(" ", "-")
        links = ", ".join(f"{{py:obj}}`{name} <weft.{name}>`" for name in names)
        parts.append(f"| [{title}]({place}.md) | {links} |")
        places.append(place)
        body = [_described(f"weft.{name}", getattr(weft, name)) for name in names]
        yield f"api/{place}.md", "\n\n".join([f"# {title}", *body]) + "\n"
    parts += ["", "## Modules", "", "| | |", "|---|---|"]
    for name in public_modules():
        module = importlib.import_module(name)
        parts.append(f"| [{name}]({name}.md) | {_first_sentence(module)} |")
        places.append(name)
        yield f"api/{name}.md", _module_page(name, module)
    parts += ["", "```{toctree}", ":hidden:", "", *places, "```", ""]
    yield "api/index.md", "\n".join(parts)


INTRODUCTION = (
    "The names of `import weft` are stable ([what you can rely on](../stability.md)); those of the modules "
    "are for extensions ([extension.md](../extension.md)) and may move. All are imported when first used."
)


def _module_page(name: str, module: Any) -> str:
    """A module's docstring, and its names one by one."""
    text = inspect.getdoc(module) or ""
    parts = [
        f"# {name}",
        _rst(f".. py:module:: {name}"),
        _rst(f".. automodule:: {name}\n   :no-index:\n   :no-members:"),
    ]
    assert text, name
    parts += [_described(f"{name}.{entry}", getattr(module, entry)) for entry in module.__all__]
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: Any) -> str:
    """The directive of autodoc that describes a name."""
    module, _, short = name.rpartition(".")
    if module != "weft" and getattr(weft, short, None) is thing:
        kind = "class" if inspect.isclass(thing) else "function"
        # below `py:module` a name gets the module's before it, unless there is no current module
        lines = [".. py:currentmodule:: None", "", f".. py:{kind}:: {name}", ""]
        return _rst("\n".join([*lines, f"   Another name of :py:obj:`weft.{short}`."]))
    if inspect.isclass(thing):
        lines = [f".. autoclass:: {name}"]
        if module not in ONLY_CLASS or short in SHOWN_WHOLE:
            lines += ["   :members:"]
            if short == "Model":
                lines += ["   :inherited-members: Module"]
        if issubclass(thing, BaseException):
            lines += ["   :show-inheritance:"]
        return _rst("\n".join(lines))
    if callable(thing) and not isinstance(thing, Registry):
        return _rst(f".. autofunction:: {name}")
    lines = [f".. autodata:: {name}", "   :no-value:"]
    if isinstance(thing, Registry):
        lines += ["", f"   Its names: {', '.join(f'``{entry}``' for entry in thing)}."]
    return _rst("\n".join(lines))


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def _first_sentence(module: Any) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
