"""The house: arrows between layers, light import, honest exports, small files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import masquerade
from conftest import python

ROOT = Path(masquerade.__file__).parent
REPO = ROOT.parent.parent
SHELVES = ("files", "compute", "account", "assets", "video", "nets", "people", "sight")  # in order
ROOMS = {"data", "release", "train", "ledger", "attack", "audit", "utility", "report"}
DOORS = {"doors", "recipes", "cli", "__main__"}
FILES = sorted(ROOT.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layer(part: str) -> int:
    for number, parts in enumerate((SHELVES, ROOMS, DOORS), 1):
        if part in parts:
            return number
    return 0


def imported_parts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "masquerade" and len(parts) > 1:
                yield parts[1]


def allowed(importer: str, imported: str) -> bool:
    if importer == imported:
        return True
    if importer in SHELVES and imported in SHELVES:
        return SHELVES.index(imported) < SHELVES.index(importer)
    if layer(importer) == layer(imported):
        return layer(importer) in (0, 3)  # the hall and the doors are one; rooms stand apart
    return layer(imported) < layer(importer)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_from_doors_to_rooms_to_shelves_to_hall(path: Path) -> None:
    wrong = [part for part in imported_parts(path) if not allowed(part_of(path), part)]
    assert not wrong


def test_the_arrow_test_can_fail() -> None:
    assert not allowed("release", "report")
    assert not allowed("account", "release")
    assert not allowed("noise", "account")
    assert not allowed("report", "doors")
    assert not allowed("people", "data") and not allowed("nets", "sight")
    assert allowed("sight", "nets") and allowed("people", "assets")
    assert allowed("release", "account") and allowed("doors", "release")


def test_there_is_no_drawer_for_leftovers() -> None:
    forbidden = {"utils", "util", "common", "helpers", "misc", "core", "base"}
    assert not {path.stem for path in FILES} & forbidden


def test_importing_masquerade_is_light() -> None:
    heavy = {"torch", "cv2", "scipy", "dp_accounting", "numpy", "av", "rich"}
    loaded = python("import sys, masquerade; print(' '.join(sys.modules))").split()
    assert not heavy & set(loaded)


def test_every_export_exists_and_the_list_is_sorted() -> None:
    assert masquerade.__all__ == sorted(masquerade.__all__)
    for name in masquerade.__all__:
        assert getattr(masquerade, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = masquerade.nonsense


def test_no_file_is_longer_than_400_lines() -> None:
    files = [*FILES, *REPO.glob("tests/**/*.py"), *REPO.glob("benchmarks/*.py")]
    assert not [str(path) for path in files if len(path.read_text().splitlines()) > 400]


def test_every_citation_is_in_the_bibliography() -> None:
    known = set(re.findall(r"@\w+\{(\w+),", (ROOT / "references.bib").read_text()))
    cited = {
        key
        for path in FILES
        for key in re.findall(r"\[([a-z]+\d{4})(?:,[^\]]*)?\]", path.read_text())
    }
    assert len(cited) > 10
    assert cited - known == set()
    assert known - cited == set(), "nobody cites these"


def test_privacy_noise_comes_from_one_package() -> None:
    sources = ("np.random.normal", "standard_normal(", "os.urandom", "randn(")
    for path in FILES:
        if part_of(path) != "noise" and path.name != "public.py":  # draws what all may know
            text = path.read_text()
            assert not [word for word in sources if word in text], path


def test_the_project_speaks_of_itself_alone() -> None:
    texts = [*FILES, *REPO.glob("*.md"), *REPO.glob("docs/*.md"), *REPO.glob("benchmarks/*")]
    for path in texts:
        if path.is_file():
            assert "/work/" not in path.read_text(), path
