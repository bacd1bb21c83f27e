"""The page: its parts and the recording, put into one file."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def page(data: Mapping[str, Any]) -> str:
    """One HTML file with all that it needs."""
    parts = files("glow_runtime.page")
    text = {name: (parts / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css")}
    script = "\n".join((parts / name).read_text(encoding="utf-8") for name in ("graph.js", "page.js"))
    told = json.dumps(data, separators=(",", ":"), default=str).replace("</", "<\\/")
    return (
        text["html"]
        .replace("{{title}}", html.escape(data["title"]))
        .replace("{{style}}", text["css"])
        .replace("{{script}}", script)
        .replace("{{data}}", told)
    )


def framed(text: str, height: int = 640) -> str:
    """A page inside of a notebook's."""
    style = f"width:100%;height:{height}px;border:1px solid #8888"
    return f'<iframe srcdoc="{html.escape(text)}" style="{style}"></iframe>'
