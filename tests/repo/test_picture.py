"""The picture and the table of the README show the figures of benchmarks/RESULTS.md."""

from __future__ import annotations

from pathlib import Path

from benchmarks.picture import PICTURE, made

ROOT = Path(__file__).parents[2]


def test_readme_shows_the_results() -> None:
    """`python -m benchmarks.picture` would change nothing."""
    drawn, rows = made()
    assert PICTURE.read_text(encoding="utf-8") == drawn
    assert "\n".join(rows) in (ROOT / "README.md").read_text(encoding="utf-8")
