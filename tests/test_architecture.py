"""The plan of the house, enforced: who may import whom, how long a file and how wide the configuration may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

CHECKOUT = Path(__file__).resolve().parents[1]
SRC = CHECKOUT / "src" / "regard"
FILES = sorted(SRC.rglob("*.py"))

FLOORS = {
    **dict.fromkeys(("errors", "config", "limits", "machine", "processes", "recipes"), 0),
    **dict.fromkeys(("model", "text"), 1),
    **dict.fromkeys(("data", "hub", "runtime"), 2),
    **dict.fromkeys(("generate",), 3),
    **dict.fromkeys(("tasks",), 4),
    **dict.fromkeys(("training", "loaded"), 5),
    **dict.fromkeys(("inspect",), 6),
    **dict.fromkeys(("api", "laws", "ledger"), 7),
    **dict.fromkeys(("serve", "lab"), 8),
    **dict.fromkeys(("cli",), 9),
    **dict.fromkeys(
        ("__init__", "__main__"), 10
    ),  # the front doors: they may open any room, and no room goes out by them
}
BARE = ("model", "text", "data", "hub", "training", "generate", "laws")
LATE = ("pydantic", "tyro", "rich", "matplotlib", "sacrebleu", "sklearn", "pandas", "pyarrow", "transformers")
NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "jaxtyping", "beartype", "lightning"}


def room(parts: tuple[str, ...]) -> str:
    """The room of a file or module, given its path below regard: a folder, or a file beside the folders."""
    return parts[0].removesuffix(".py") if parts else "__init__"


def imports(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, dotted name in parts) of everything the file imports, also late; not what only type checkers see."""
    package = ("regard", *path.relative_to(SRC).parts[:-1])
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield from ((node.lineno, (*base, alias.name)) for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def may_import(mine: str, theirs: str) -> bool:
    if {mine, theirs} == {"training", "inspect"}:
        return False
    same_folder = mine == theirs or FLOORS[mine] == FLOORS[theirs] == 0
    return same_folder or FLOORS[theirs] < FLOORS[mine]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_file_keeps_to_the_plan(path: Path) -> None:
    mine = room(path.relative_to(SRC).parts)
    assert mine in FLOORS, f"regard/{mine} is not in the plan (architecture.md, CONTRIBUTING.md)"
    length = len(path.read_text(encoding="utf-8").split("\n")) - 1
    assert length <= 350, f"{path} has {length} lines; a file stays under 350"
    for line, name in imports(path):
        assert name[0] not in NEVER, f"{path}:{line} imports {name[0]}, which has no place in src"
        if name[0] == "regard" and name[1:] != ("__version__",):
            # `from regard import load` goes out by the front door, and so does a bare `import regard`
            theirs = room(name[1:]) if room(name[1:]) in FLOORS else "__init__"
            assert may_import(mine, theirs), f"{path}:{line}: {mine} must not import {'.'.join(name)}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import regard.cli.main", ("regard", "cli", "main")),
        ("from regard.cli import main", ("regard", "cli", "main")),
        ("from regard import cli", ("regard", "cli")),
        ("from ..cli import main", ("regard", "cli", "main")),
        ("from .. import cli", ("regard", "cli")),
        ("def f():\n    if True:\n        import regard.cli", ("regard", "cli")),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import regard.cli", ("regard", "cli")),
        ("if TYPE_CHECKING:\n    import regard.cli", None),
    ],
)
def test_every_way_to_import_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, found: tuple[str, ...] | None
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SRC", tmp_path)
    path = tmp_path / "model" / "upward.py"
    path.parent.mkdir()
    path.write_text(source)
    assert [name for _, name in imports(path)] == ([found] if found else [])


@pytest.mark.parametrize(
    ("mine", "theirs", "allowed"),
    [
        ("config", "errors", True),
        ("model", "errors", True),
        ("hub", "hub", True),
        ("serve", "inspect", True),
        ("lab", "training", True),
        ("__init__", "api", True),
        ("model", "text", False),
        ("errors", "model", False),
        ("inspect", "training", False),
        ("training", "inspect", False),
        ("training", "api", False),
        ("serve", "lab", False),
        ("cli", "__init__", False),
    ],
)
def test_the_floors(mine: str, theirs: str, allowed: bool) -> None:
    assert may_import(mine, theirs) is allowed


def test_the_configuration_has_at_most_30_axes() -> None:
    tree = ast.parse((SRC / "model" / "config.py").read_text(encoding="utf-8"))
    config = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "TransformerConfig")
    fields = [
        ast.unparse(node.target)
        for node in config.body
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
    ]
    assert 0 < len(fields) <= 30, f"{len(fields)} axes: {', '.join(fields)}"


def test_the_low_rooms_import_bare() -> None:
    """Every module of these rooms imports where only torch, numpy, tokenizers and safetensors can be had."""
    script = f'''
import importlib, pkgutil, sys

from importlib.machinery import PathFinder

class Without:
    """Finds what is installed, except {LATE!r}."""
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {LATE!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without()
for name in {BARE!r}:
    room = importlib.import_module("regard." + name)
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(module.name)
'''
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_extra_all_is_every_extra_for_users() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert extras["all"] == [f"regard[{','.join(sorted(extras.keys() - {'all', 'bench', 'dev'}))}]"]


def test_the_face_is_the_documented_one() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## The Python face\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert sorted(documented) == sorted(regard.__all__)
