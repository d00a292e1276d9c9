"""The tree: nothing hides from the import contracts, imports are light, exports honest."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

import masquerade
from conftest import python
from masquerade._optional import lazy_module

ROOT = Path(masquerade.__file__).parent
REPO = ROOT.parent.parent
FILES = sorted(ROOT.rglob("*.py"))
BY_NAME = {  # may import what a string names, each for its reason
    "__init__.py": "public names, fetched when they are first used",
    "_optional.py": "packages of others, which its callers name, and a file of the user's own",
    "catalog.py": "entries: classes that a table names",
    "cli/__init__.py": "the one verb that runs",
    "cli/completion.py": "all verbs, whose flags a shell is told",
}
IMPORTERS = {"import_module", "__import__", "require", "find_spec"}  # of what a string names
LOADERS = {  # of files, modules and code
    *("spec_from_file_location", "spec_from_loader", "module_from_spec", "exec_module"),
    *("load_module", "SourceFileLoader", "reload", "run_module", "run_path", "resolve_name"),
    *("exec", "__loader__"),
}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def read(path: Path) -> ast.Module:
    """A file of ours, which several tests look at."""
    return ast.parse(path.read_text())


def hidden_imports(tree: ast.AST) -> Iterator[str]:
    """Whatever may import a module of ours that `imported_parts` does not see."""
    plain = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and names_another_package(node.args)
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(level=level) if level > 0:
                yield ast.unparse(node)
            case ast.alias(name=name, asname=str()) if name in IMPORTERS | LOADERS:
                yield ast.unparse(node)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if name in LOADERS or (name in IMPORTERS and id(node) not in plain):
                    yield ast.unparse(node)
                if ast.unparse(node) in ("sys.modules", "eval"):
                    yield ast.unparse(node)


def names_another_package(arguments: list[ast.expr]) -> bool:
    match arguments:
        case [ast.Constant(value=str(name)), *_]:
            return name.split(".")[0] not in ("", "masquerade")
    return False


def defined_twice(trees: Iterable[tuple[str, ast.Module]]) -> dict[str, list[str]]:
    """Names of classes that several files define, with those files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_arrow_hides_in_a_string(path: Path) -> None:
    name, tree = str(path.relative_to(ROOT)), read(path)
    if name not in BY_NAME:
        assert not list(hidden_imports(tree))


@pytest.mark.parametrize(
    "line",
    [
        "import_module('masquerade.mechanisms.blur')",
        "importlib.import_module(f'masquerade.{room}')",
        "importlib.import_module('.blur', package='masquerade.mechanisms')",
        "require('masquerade.networks.lstm', extra='train')",
        "__import__('masquerade')",
        "importlib.util.find_spec(name)",
        "importlib.util.module_from_spec(spec)",
        "runpy.run_path('x.py')",
        "load = import_module",
        "from importlib import import_module as load",
        "from ..release import blur",
        "exec('import masquerade.mechanisms')",
        "sys.modules['masquerade.mechanisms']",
    ],
)
def test_the_search_for_hidden_arrows_can_fail(line: str) -> None:
    assert list(hidden_imports(ast.parse(line)))


def test_packages_of_others_may_be_named() -> None:
    for line in ("require('torch', extra='train')", "import_module('numba')", "model.eval()"):
        assert not list(hidden_imports(ast.parse(line)))


def test_a_class_has_a_name_of_its_own() -> None:
    trees = ((str(path.relative_to(ROOT)), read(path)) for path in FILES)
    twice = defined_twice(trees)
    assert not twice


def test_the_search_for_names_of_two_meanings_can_fail() -> None:
    one, other = ast.parse("class Film: ..."), ast.parse("class Film: ...\nclass Frame: ...")
    assert defined_twice([("a.py", one), ("b.py", other)]) == {"Film": ["a.py", "b.py"]}


def test_there_is_no_drawer_for_leftovers() -> None:
    forbidden = {"utils", "util", "common", "helpers", "misc", "core", "base"}
    assert not {path.stem for path in FILES} & forbidden


def test_importing_masquerade_is_light() -> None:
    heavy = {"torch", "cv2", "scipy", "dp_accounting", "numpy", "av", "rich"}
    loaded = python("import sys, masquerade; print(' '.join(sys.modules))").split()
    assert not heavy & set(loaded)


def test_an_overview_needs_no_numbers_and_a_release_no_statistics() -> None:
    said = "import sys, masquerade.{}; print('all:', *sys.modules)"
    overview = python(said.format("cli")).rpartition("all:")[2].split()
    assert not {"numpy", "scipy", "tyro", "joblib", "sqlalchemy"} & set(overview)
    release = python(said.format("cli.release")).rpartition("all:")[2].split()
    assert "dp_accounting.dp_event" in release
    assert not {"scipy.stats", "scipy.signal", "dp_accounting.pld", "joblib"} & set(release)


def test_a_package_that_was_imported_lightly_is_whole_when_it_is_asked() -> None:
    ask = (
        "import masquerade.events, dp_accounting; print(dp_accounting.get_sigma_gaussian(1, 1e-5))"
    )
    assert 3.7 < float(python(ask)) < 3.8
    ask = "import masquerade.events; from dp_accounting.pld import PLDAccountant as A; print(A)"
    assert "PLDAccountant" in python(ask)
    ask = "import masquerade.events, dp_accounting; print(hasattr(dp_accounting, 'nonsense'))"
    assert python(ask).strip() == "False"


def test_every_export_exists_and_the_list_is_sorted() -> None:
    assert masquerade.__all__ == sorted(masquerade.__all__)
    for name in masquerade.__all__:
        assert getattr(masquerade, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = masquerade.nonsense


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
        if part_of(path) != "noise" and path.stem != "random_projection":  # draws what all may know
            text = path.read_text()
            assert not [word for word in sources if word in text], path


def test_the_project_speaks_of_itself_alone() -> None:
    texts = [*FILES, *REPO.glob("*.md"), *REPO.glob("docs/*.md"), *REPO.glob("benchmarks/*")]
    for path in texts:
        if path.is_file():
            assert "/work/" not in path.read_text(), path


def test_what_two_threads_ask_for_at_once_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_package.py").write_text("import time\ntime.sleep(0.2)\nVALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    lazy = lazy_module("slow_package")
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: lazy.VALUE, range(2))) == [1, 1]
