"""`python -m glow_tools` is `glow`, where its script is not installed."""

from glow_tools.entry import glow  # pyright: ignore[reportAttributeAccessIssue]

raise SystemExit(glow())
