"""The outline of a page: what a browser would build, fetch and run."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = (
    "<script>document.title='owned'</script>",
    "\"'><img src=x onerror=\"document.title='owned'\">",
    "</title></style></svg><h1 id=owned>&amp;",
    "javascript:document.title='owned'//",
    "\u202egnirts\x00\x1b[31m\ufffe",
    "x" * 300,
)
"""Names and texts that would change a page if they were not escaped."""


class Outline(HTMLParser):
    """The elements, attributes and texts of a page; tags must close in order.

    Attributes:
        elements: the name and the attributes of every element, in order.
        texts: the text directly inside each kind of element, in order.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)  # elements without content are written as <br/>

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", data))

    def named(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a name."""
        return [attributes for tag, attributes in self.elements if tag == name]

    def inside(self, name: str) -> list[str]:
        """The texts directly inside elements of a name."""
        return [text for tag, text in self.texts if tag == name]

    @property
    def ids(self) -> list[str]:
        """All ids."""
        return [attributes["id"] or "" for _, attributes in self.elements if "id" in attributes]


def check_page(page: str) -> Outline:
    """Check what every page must keep, and return its outline.

    Nothing is fetched, only the page's own script runs, ids are unique and links lead inside, every picture
    has a title and a description, every table a caption, and no attribute holds code.
    """
    outline = Outline(page)
    assert len(set(outline.ids)) == len(outline.ids), "two elements have one id"
    for name, attributes in outline.elements:
        assert not [key for key in attributes if key.startswith("on")], f"<{name}> runs code: {attributes}"
        assert "style" not in attributes, "the policy forbids it"
        assert "src" not in attributes
        link = attributes.get("href")
        if link is not None and name == "a":
            assert link.startswith("#")
            assert link[1:] in outline.ids
        elif link is not None:
            assert link.startswith("data:image/png;base64,")
    assert not {"iframe", "object", "embed", "form", "link", "img", "base"} & {n for n, _ in outline.elements}
    assert len(outline.named("script")) == len(outline.named("style")) == len(outline.named("main")) == 1
    (policy,) = [a["content"] or "" for a in outline.named("meta") if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for attributes in outline.named("svg"):
        if attributes.get("aria-hidden") == "true":
            continue
        labels = (attributes["aria-labelledby"] or "").split()
        assert attributes["role"] == "img"
        assert len(labels) == 2
        assert set(labels) <= set(outline.ids)
    assert len(outline.named("caption")) == len(outline.named("table"))
    assert all(a.get("scope") in ("col", "row") for a in outline.named("th"))
    return outline
