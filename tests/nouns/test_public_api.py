"""What `import masquerade as mq` offers, name by name."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import masquerade as mq
from conftest import python

ROOT = Path(mq.__file__).parent
REPO = ROOT.parent.parent
EXAMPLES = sorted(REPO.glob("examples/*.py"))
MODULES = {"accounting", "audits", "events", "report"}
NAMES = """
    Accountant Attack AttackResult BadInput BudgetExceeded Collection Evaluation Evidence
    FileSettings FolderSettings Guarantee GuaranteeKind IfExists Ledger MeasuredRate Mechanism
    MechanismGame MissingExtra Network Noise OutputSettings Photo Plan ReadLimits Receipt Relation
    Release Scores Signal Unit UnitName Utility Video __version__ accounting attack_files
    attack_mechanism audit_game audits check_receipt evaluate_file events explain find_game
    make_attack make_collection make_mechanism make_method make_network measure_files probe_file
    read_video release_file release_folder release_value report sign_receipt teach_file train_file
    write_report
""".split()


def test_the_public_names_are_these() -> None:
    assert sorted(NAMES) == NAMES
    assert mq.__all__ == NAMES == dir(mq)


def test_a_name_is_loaded_when_it_is_used_and_not_before() -> None:
    code = """
import sys, masquerade as mq
before = {name for name in sys.modules if name.startswith("masquerade.")}
mq.Unit
print(sorted(before), "masquerade.guarantee" in sys.modules, "masquerade.result" in sys.modules)
"""
    assert python(code).strip() == "[] True False"


def test_the_name_of_a_package_is_never_a_function() -> None:
    """Importing a package sets the name on its parent, and would replace the function."""
    inside = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(NAMES) & inside == MODULES
    assert all(isinstance(getattr(mq, name), ModuleType) for name in MODULES)


@pytest.mark.parametrize("name", sorted(set(NAMES) - MODULES - {"__version__"}))
def test_a_name_is_documented_and_called_the_same_at_home(name: str) -> None:
    found = getattr(mq, name)
    assert found.__name__ == name
    assert inspect.getdoc(found)


def arguments(name: str) -> list[str]:
    return list(inspect.signature(getattr(mq, name)).parameters)


def test_files_and_folders_are_released_by_the_same_words() -> None:
    one, many = arguments("release_file"), arguments("release_folder")
    assert one[:3] == many[:3] == ["source", "target", "mechanism"]
    assert one[3:] == ["noise", "ledger", "options"] == many[3:6]
    assert {"mechanism", "noise", "ledger"} <= set(one) & set(arguments("release_value"))


def test_both_ways_of_learning_take_the_same_words() -> None:
    train, teach = arguments("train_file"), arguments("teach_file")
    words = {"target", "method", "noise", "ledger", "progress"}
    assert words <= set(train) & set(teach) and train[0] == "collection"
    assert arguments("evaluate_file")[:2] == ["model", "collection"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_import_from_masquerade_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("masquerade."), path
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            assert not [name for name in names if name.startswith("masquerade.")], path


def test_the_module_can_be_run_like_the_command() -> None:
    words = [sys.executable, "-m", "masquerade", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"masquerade {mq.__version__}\n" and done.returncode == 0
