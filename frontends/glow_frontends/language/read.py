"""Language models by path: Hugging Face folders, GGUF files."""

from __future__ import annotations

from pathlib import Path

from glow_dialects.core.errors import GlowError
from glow_dialects.core.file_kinds import FileKind, is_kind, refuse_file
from glow_frontends.language.decoder import LanguageFiles


def read_language_model(path: str | Path) -> LanguageFiles:
    """The model of a folder or file; nothing but tables is read yet.

    GlowError where files are missing or damaged, UnsupportedError for architectures that are not known.
    """
    place = Path(path)
    if place.is_dir():
        from glow_frontends.language.huggingface import read_folder

        return read_folder(place)
    if not place.exists():
        raise GlowError(f"{place}: no such file or folder")
    if is_kind(place, FileKind.GGUF):
        from glow_frontends.language.gguf_model import read_gguf

        return read_gguf(place)
    raise refuse_file(place, "a language model (a folder with config.json, or a .gguf file)")
