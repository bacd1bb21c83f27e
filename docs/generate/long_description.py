"""The description on the page of a package index: README.md, whose links lead into the repository.

Hatchling calls it when it builds a wheel or an sdist. Links lead to the tag of the version, at the address
`Source` of `[project.urls]` in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A relative link or picture: whether it is a picture, its text, its target without `)`.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def absolute(text: str, source: str, version: str, root: Path) -> str:
    """A document of the folder `root` with its relative links as addresses of the repository."""

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        path = root / target.partition("#")[0]
        if not path.exists():
            raise ValueError(f"README.md: the link to {target} leads to no file")
        view = "raw" if picture else "tree" if path.is_dir() else "blob"
        return f"{picture}[{words}]({source}/{view}/v{version}/{target})"

    return LINK.sub(link, text)


class LongDescription(MetadataHookInterface):
    """Fills in `project.readme`."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field to the text of README.md."""
        root = Path(self.root)
        text = (root / "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata["urls"]["Source"], metadata["version"], root)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
