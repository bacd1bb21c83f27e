"""Digests of files that are made while others go on."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from glow_compiler import file_states
from glow_compiler.file_states import digesting


@pytest.mark.parametrize("size", [1, 4096, 70_001])
def test_a_digest_is_that_of_the_whole_file(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_states, "_PIECE", 4 * 4096)
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    with digesting(tmp_path / "f") as digest:
        assert digest() == hashlib.sha256(data).hexdigest()


def test_what_changes_meanwhile_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["before", "after"])
    monkeypatch.setattr(file_states, "state", lambda _: next(states))  # pyright: ignore
    (tmp_path / "f").write_bytes(b"data")
    with digesting(tmp_path / "f") as digest:
        assert digest() is None


def test_only_files_that_hold_something_have_one(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    paths = [None, tmp_path, tmp_path / "nothing", tmp_path / "empty"]
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")  # to read it would take for ever
        paths.append(tmp_path / "pipe")
    for path in paths:
        with digesting(path) as digest:
            assert digest() is None


def test_nobody_waits_for_the_digest_of_what_is_no_model(tmp_path: Path) -> None:
    """An error in the body comes out; the thread has ended."""
    (tmp_path / "f").write_bytes(b"data")
    with pytest.raises(ValueError, match="no model"), digesting(tmp_path / "f"):
        raise ValueError("no model")
