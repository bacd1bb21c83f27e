"""`--input NAME=VALUE`: values of inputs from files, pictures, numbers, and of random numbers."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.errors import BindingError, GlowError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

Feed = dict[str, Any]
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
FILLS = ("random", "zeros", "ones")
#: What messages name as a value.
FORMS = "FILE.npy, FILE.npz, a picture, a number, random, zeros or ones"


def _load(path: Path) -> Array | Feed:
    """The array of a .npy file or those of a .npz file; GlowError where it is neither."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        raise GlowError(f"{path}: not a .npy or .npz file of plain arrays") from None


def load_inputs(path: Path, names: Sequence[str], name: str = "") -> Feed:
    """Inputs by name: the arrays of a .npz file, or the one of a .npy file, for `name` or the only input.

    BindingError where it is not said which input an array is for.
    """
    loaded = _load(path)
    if isinstance(loaded, dict):
        if name:
            raise BindingError(f"{path}: this is an archive of arrays by name; give it without '{name}='")
        return loaded
    return {name or only_name(str(path), names): loaded}


def load_archive(path: Path) -> Feed:
    """The arrays of a .npz file by name; GlowError where it is none."""
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise GlowError(f"{path}: one array; a .npz archive of arrays by name is needed")
    return loaded


def load_parts(path: Path) -> Array | Feed:
    """What is in a .npy or .npz file."""
    return _load(path)


def only_name(value: str, names: Sequence[str]) -> str:
    """The only input of a model; BindingError where it has others."""
    if len(names) != 1:
        raise BindingError(
            f"{value}: which input is it for? The model has inputs {', '.join(names)}; "
            f"give --input NAME={value}, or a .npz file with one array for each"
        )
    return names[0]


class GivenInputs:
    """The values that options give: arrays at once, others when the shapes of their inputs are known."""

    def __init__(self, options: Sequence[tuple[str, str]], file: Path | None, inputs: Sequence[Any]) -> None:
        self._ports = {p.name: p for p in inputs}
        self.arrays: Feed = {}
        self._later: dict[str, str] = {}
        names = list(self._ports)
        if file is not None:
            self.arrays |= load_inputs(file, names)
        for name, text in options:
            if Path(text).suffix.lower() in (".npy", ".npz"):
                self.arrays |= load_inputs(Path(text), names, name)
            else:
                self._take(name or only_name(text, names), text)
        for name in (*self.arrays, *self._later):
            if name not in self._ports:
                raise BindingError(f"unknown input '{name}'; the inputs are: {', '.join(names)}")

    def _take(self, name: str, text: str) -> None:
        """A value that is no array: it is made at once where its shape is known."""
        port = self._ports.get(name)
        if port is None:
            raise BindingError(f"unknown input '{name}'; the inputs are: {', '.join(self._ports)}")
        if Path(text).suffix.lower() in PICTURES:
            self.arrays[name] = picture(Path(text), name, tuple(port.shape), port.dtype)
        elif text not in FILLS and port.kind == "tensor" and None not in port.shape:
            self.arrays[name] = number(text, name, tuple(port.shape), port.dtype)
        elif (listed := _listed(text)) is not None:
            self.arrays[name] = _cast(listed, text, name, port.dtype)
        else:
            self._later[name] = text

    def finished(self, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> Feed:
        """All values, those that were left for the shapes of their inputs too."""
        made = dict(self.arrays)
        for name, text in self._later.items():
            shape, dtype = shapes[name], self._ports[name].dtype
            if text == "random":
                made[name] = random_numbers(rng, shape, dtype)
            elif text in FILLS:
                made[name] = np.full(shape, text == "ones").astype(dtype)
            else:
                made[name] = number(text, name, shape, dtype)
        return made

    def __contains__(self, name: str) -> bool:
        return name in self.arrays or name in self._later

    def __bool__(self) -> bool:
        return bool(self.arrays or self._later)


def values_given(model: Any, options: Sequence[tuple[str, str]]) -> Feed:
    """The values of options for inputs of a model whose shapes are known."""
    if not options:
        return {}
    from glow_compiler.settle import source_of

    return GivenInputs(options, None, source_of(model, {}).inputs).arrays


def random_numbers(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype, most: int = 2) -> Any:
    """Random values of a type: integers below `most`, floats of the standard normal distribution, letters."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, most, shape).astype(dtype)
    if dtype == object:
        return np.array(list("abcdefgh"), object)[rng.integers(0, 8, shape)]
    return rng.standard_normal(shape).astype(dtype)


def number(text: str, name: str, shape: Sequence[int], dtype: np.dtype) -> Array:
    """An array of one number in every element, or of a list `1,2,3` that has as many; words are texts."""
    if text in FILLS:
        raise BindingError(f"input '{name}': {text} needs a shape; give --shape {name}=1x...")
    if dtype == object:
        return np.full(shape, text, object)
    listed = _listed(text)
    if listed is None:
        try:
            value = json.loads(text.lower())
        except ValueError:
            value = None
        if not isinstance(value, bool | int | float):
            raise BindingError(f"--input {name}={text}: No such file, and no number; a value is {FORMS}")
        return np.full(shape, _cast(np.array(value), text, name, dtype))
    if listed.size != int(np.prod(shape)):
        raise BindingError(f"--input {name}={text}: {listed.size} numbers for shape {tuple(shape)}")
    return _cast(listed, text, name, dtype).reshape(shape)


def _listed(text: str) -> Array | None:
    """The numbers of `1,2,3` or `[[1,2],[3,4]]`; None for other texts."""
    if "," not in text and not text.startswith("["):
        return None
    try:
        found = np.array(json.loads(text if text.startswith("[") else f"[{text}]"))
    except ValueError:
        return None
    return found if found.dtype.kind in "biuf" else None


def _cast(value: Array, text: str, name: str, dtype: np.dtype) -> Array:
    """A value of a type; BindingError where it is none of it."""
    if dtype.kind in "iub":
        made = value.astype(dtype)
        if not np.array_equal(made, value):
            raise BindingError(
                f"--input {name}={text}: the input is of type {dtype}, which has no such number"
            )
        return made
    return value.astype(dtype)


def picture(path: Path, name: str, shape: tuple[int | None, ...], dtype: np.dtype) -> Array:
    """A picture for an input of images: channels first or last, at its size or its own where that is open.

    Bytes are 0 to 255, floats 0 to 1.
    """
    sizes = list(shape)
    channels_last = len(sizes) >= 3 and sizes[-1] in (1, 3, 4) and sizes[-3] not in (1, 3, 4)
    if len(sizes) not in (3, 4) or sizes[-1 if channels_last else -3] not in (1, 3, 4, None):
        raise BindingError(f"input '{name}' of shape {_dims(shape)} takes no picture; give it as FILE.npy")
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise GlowError(f"{path}: pictures are read by Pillow: pip install pillow") from None
    height, width = (sizes[-3], sizes[-2]) if channels_last else (sizes[-2], sizes[-1])
    mode = {1: "L", 4: "RGBA"}.get(sizes[-1 if channels_last else -3] or 3, "RGB")
    try:
        with Image.open(path) as opened:
            image = opened.convert(mode)
    except UnidentifiedImageError:
        raise GlowError(f"{path}: not a picture that Pillow reads") from None
    size = width or image.width, height or image.height
    pixels = np.asarray(image if image.size == size else image.resize(size))
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if not channels_last:
        pixels = pixels.transpose(2, 0, 1)
    if len(sizes) == 4:
        pixels = np.repeat(pixels[None], sizes[0] or 1, 0)
    return pixels.astype(dtype) if dtype.kind in "iu" else (pixels / 255).astype(dtype)


def _dims(shape: Sequence[int | None]) -> str:
    return "x".join("?" if d is None else str(d) for d in shape)
