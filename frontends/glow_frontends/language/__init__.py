"""Language model importers: decoder descriptions, file formats, and program graphs."""

from glow_frontends.language.decoder import Decoder, LanguageFiles
from glow_frontends.language.graph import Form, decoder_graph
from glow_frontends.language.read import read_language_model
from glow_frontends.language.rope import Rope

__all__ = ["Decoder", "Form", "LanguageFiles", "Rope", "decoder_graph", "read_language_model"]
