"""A release: its version and changelog, what an index shows of it, and what its files contain."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from datetime import date
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from documents import ROOT, fences
from installed import entries, missing

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"
HEADING = re.compile(r"^## (\S+)(?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)


def test_changelog_begins_with_the_version() -> None:
    """After what is unreleased comes the version of pyproject.toml, with its date."""
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert headings[0] == ("Unreleased", "")
    version, day = headings[1]
    assert version == PROJECT["project"]["version"]
    assert date.fromisoformat(day) >= date(2026, 11, 28)


def test_parts_of_a_version() -> None:
    """Each version is sorted: breaking, new, fixed."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:3]:
        parts = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert parts == [part for part in ("Breaking", "New", "Fixed") if part in parts], section[:20]


def test_addresses_are_of_one_repository() -> None:
    """One address is replaced when the repository moves."""
    urls = PROJECT["project"]["urls"]
    assert [name for name, url in urls.items() if not url.startswith(urls["Source"])] == []


@pytest.fixture
def description(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook that makes the description; Hatchling is only there while a wheel is built."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)  # pyright: ignore
    path = ROOT / "docs" / "generate" / "long_description.py"
    spec = importlib.util.spec_from_file_location("long_description", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_description(description: ModuleType) -> None:
    """An index shows README by itself: every link has an address, at the tag of the version."""
    hook = description.LongDescription()
    hook.root = str(ROOT)
    metadata = dict(PROJECT["project"])
    hook.update(metadata)
    text = metadata["readme"]["text"]
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert [target for target in targets if not target.startswith("https://")] == []
    place = f"{metadata['urls']['Source']}/blob/v{metadata['version']}/docs/onnx.md"
    assert f"[ONNX]({place})" in text
    assert "readme" in metadata["dynamic"]


def test_links_to_nothing_are_refused(description: ModuleType) -> None:
    """A link that leads nowhere stops the build; pictures, folders and anchors have their own addresses."""
    with pytest.raises(ValueError, match="nowhere"):
        description.absolute("[a](nowhere.md)", "https://x", "1", ROOT)
    given = "![p](docs/pictures/speed.svg) [d](docs) [a](docs/onnx.md#models) [b](#here) [c](https://y)"
    wanted = (
        "![p](https://x/raw/v1/docs/pictures/speed.svg) [d](https://x/tree/v1/docs) "
        "[a](https://x/blob/v1/docs/onnx.md#models) [b](#here) [c](https://y)"
    )
    assert description.absolute(given, "https://x", "1", ROOT) == wanted


def test_wheel_has_every_package() -> None:
    """A folder with modules that is added beside the others is not forgotten."""
    listed = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    found = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/glow_*/__init__.py")}
    assert listed == found | {"glow_dialects"}


def test_commands_of_the_smoke_test() -> None:
    """Blocks are cut into commands, and what cannot run here is told from what can."""
    blocks = [block for block in fences("README.md") if block.language == "console"]
    pieces = [piece for block in blocks for piece in entries(block.text)]
    assert all(piece.startswith("$ ") for piece in pieces)
    assert "".join(pieces) == "".join(block.text for block in blocks)
    assert missing("$ glow-opt net.mlir") == ""


def test_smoke_test_leaves_out_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that README calls optional, and other processors."""
    monkeypatch.setattr("installed.find_spec", lambda name: None)
    assert missing("$ glow-run m.onnx --compare onnxruntime") == "onnxruntime is not installed"
    monkeypatch.setattr("installed.platform.machine", lambda: "arm64")
    assert missing("$ glow-opt net.mlir --mcpu haswell") == "this is arm64"


def test_conda_recipe_follows_the_project() -> None:
    """The recipe has the project's version, commands, and ranges of dependencies."""
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    project = PROJECT["project"]
    assert recipe["context"]["version"] == project["version"]
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    names = {"ml-dtypes": "ml_dtypes", "xxhash": "python-xxhash"}
    wanted = [f"python {project['requires-python']}"]
    for needed in project["dependencies"]:
        name, versions = re.fullmatch(r"([a-z-]+)(.+)", needed).groups()  # pyright: ignore
        wanted.append(f"{names.get(name, name)} {versions}")
    assert recipe["requirements"]["run"] == wanted


@pytest.mark.parametrize("workflow", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.stem)
def test_workflows(workflow: Path) -> None:
    """Workflows can be read, begin with a token that reads only, bound their jobs, and pin what they use."""
    text = workflow.read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    assert read["permissions"] == {"contents": "read"}
    jobs = read["jobs"].values()
    assert all("timeout-minutes" in job for job in jobs if "uses" not in job)
    used = [step["uses"] for job in jobs for step in job.get("steps", ()) if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []


def test_pythons_are_those_of_the_workflows() -> None:
    """Every Python that the classifiers name is tested, on every commit."""
    prefix = "Programming Language :: Python :: 3."
    named = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if c.startswith(prefix)]
    for file, job in (("ci", "quick"), ("dist", "install")):
        workflow = yaml.safe_load((WORKFLOWS / f"{file}.yml").read_text(encoding="utf-8"))
        assert workflow["jobs"][job]["strategy"]["matrix"]["python"] == named
