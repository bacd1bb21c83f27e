"""What mkdocs calls to build the site: generated pages, documents outside docs/, links to source files.

Pages of the reference are made when the site is built. A link of a document that leads to a file of the
repository leads to a copy of it on the site, so that the site is whole by itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import command_pages
import dialect_pages
import onnx_pages
import operator_pages
import pass_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from page_text import summary, table

ROOT = Path(__file__).parents[2]
#: A relative link, without its anchor.
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
REFERENCE: dict[str, Callable[[], Iterator[str]]] = {
    "reference/api.md": api_pages.page,
    "reference/operators.md": operator_pages.page,
    "reference/onnx.md": onnx_pages.page,
    "reference/passes.md": pass_pages.page,
    "reference/dialects.md": dialect_pages.page,
    "reference/commands.md": command_pages.page,
}
#: Documents outside docs/, with their pages.
MOUNTED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "examples/training/README.md": "examples/training.md",
    "examples/numpy_backend/README.md": "examples/numpy_backend.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, the documents outside docs/ and the files that any of them link to."""
    texts = {uri: "\n".join(make()) for uri, make in REFERENCE.items()}
    texts |= {uri: (ROOT / path).read_text(encoding="utf-8") for path, uri in MOUNTED.items()}
    linked = {target for uri, text in texts.items() for target in _targets(text, place_of(uri))}
    for file in files.documentation_pages():
        linked |= set(_targets(file.content_string, place_of(file.src_uri)))
    for uri, text in texts.items():
        files.append(File.generated(config, uri, content=text))
    copied = {target for path in linked for target in ([*_listed(path), path] if path.is_dir() else [path])}
    for path in sorted(copied):
        uri = page_of(path)
        if uri in texts or not uri.startswith("source/") or not path.exists():
            continue
        if path.is_dir():
            files.append(File.generated(config, uri, content="\n".join(_listing(path))))
        else:
            files.append(File.generated(config, uri, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files of the repository to their place on the site."""
    return rewritten(markdown, page.file.src_uri)


def rewritten(text: str, uri: str) -> str:
    """A page's text with links as the site has them."""
    place = place_of(uri)

    def link(match: re.Match[str]) -> str:
        target = page_of(resolved(match[1], place))
        return os.path.relpath(target, PurePosixPath(uri).parent)

    return LINK.sub(link, text)


def place_of(uri: str) -> Path:
    """The file that a page is, or would be if it were committed."""
    mounted = {page: path for path, page in MOUNTED.items()}
    if uri.startswith("source/"):
        return ROOT / uri.removeprefix("source/")
    return ROOT / mounted.get(uri, f"docs/{uri}")


def page_of(path: Path) -> str:
    """The page or file of the site for a file of the repository."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in MOUNTED:
        return MOUNTED[inside]
    if inside.startswith("docs/") and path.suffix == ".md":
        return inside.removeprefix("docs/")
    if path.is_dir():
        return f"source/{inside}/index.md"
    text = path.suffix not in (".png", ".svg")
    return f"source/{inside}{'.txt' * text}"


def resolved(link: str, place: Path) -> Path:
    """The file that a link of a document leads to."""
    return Path(os.path.normpath(place.parent / link))


def _targets(text: str, place: Path) -> Iterator[Path]:
    """The files of the repository that a document links to."""
    yield from (resolved(link, place) for link in LINK.findall(text))


def _listed(folder: Path) -> list[Path]:
    """The modules and documents of a folder that is linked to."""
    return sorted(p for p in folder.iterdir() if p.suffix in (".py", ".md") and p.name != "__init__.py")


def _listing(folder: Path) -> Iterator[str]:
    """The page of a folder: its modules with their first lines."""
    yield f"# {folder.relative_to(ROOT)}\n"
    rows = ((f"[{p.name}]({p.name})", _first_line(p)) for p in _listed(folder))
    yield from table(("module", ""), rows)


def _first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return summary(text.split('"""')[1]) if path.suffix == ".py" and '"""' in text else ""
