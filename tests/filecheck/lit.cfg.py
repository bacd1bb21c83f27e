"""lit configuration: `lit tests/filecheck` runs the RUN lines of every .mlir file below."""

import atexit
import os
import shutil
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
# A folder of its own for what tests write, so that runs beside each other do not meet.
config.test_exec_root = tempfile.mkdtemp(prefix="glow-filecheck-")  # noqa: F821
atexit.register(shutil.rmtree, config.test_exec_root, ignore_errors=True)  # noqa: F821

# The commands of the environment that lit itself runs in: glow-opt, filecheck, xdsl-opt.
path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
config.environment["PATH"] = path  # noqa: F821
config.environment["GLOW_CACHE_DIR"] = ""  # noqa: F821
config.environment["COLUMNS"] = "200"  # noqa: F821
if "PYTHONPATH" in os.environ:  # sources or versions of packages other than the installed ones
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]  # noqa: F821

# %light: the folder of the onnx package's light models.
config.substitutions.append(("%light", str(light)))  # noqa: F821
