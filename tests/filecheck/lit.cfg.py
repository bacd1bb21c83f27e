"""lit configuration: `lit tests/filecheck` runs the RUN lines of every .mlir file below."""

import os
import sys
import tempfile
from pathlib import Path

import lit.formats
import onnx

here = Path(__file__).parent
light = Path(onnx.__file__).parent / "backend/test/data/light"

config.name = "glow"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = str(here)  # noqa: F821
config.test_exec_root = os.path.join(tempfile.gettempdir(), f"glow-filecheck-{os.getuid()}")  # noqa: F821

# The commands of the environment that lit itself runs in: glow-opt, filecheck, xdsl-opt.
path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
config.environment["PATH"] = path  # noqa: F821
config.environment["GLOW_CACHE_DIR"] = ""  # noqa: F821
config.environment["COLUMNS"] = "200"  # noqa: F821

# %light: the folder of the onnx package's light models.
config.substitutions.append(("%light", str(light)))  # noqa: F821
