"""The pages keep what they promise: snippets run, links and files are there."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import masquerade as mq

ROOT = Path(mq.__file__).parent
REPO = ROOT.parent.parent
PAGES = [REPO / "CONTRIBUTING.md", *(REPO / "docs" / f"{n}.md" for n in ("design", "noise"))]
BLOCKS = re.findall(r"```python\n(.*?)```", (REPO / "docs/extend.md").read_text(), re.S)
FILES = {
    found[1]: block
    for block in BLOCKS
    if (found := re.match(r"# src/masquerade/(\w+/\w+\.py)\n", block))
}
LINES = re.findall(
    r"of `(\w+)/__init__.py`:\n\n```text\n(.*?)```", (REPO / "docs/extend.md").read_text(), re.S
)
CONTRACTS = (
    "tests/nouns/test_contract.py",
    "tests/datasets/test_data_contract.py",
    "tests/audits/test_audit.py",
    "tests/training/test_train_methods.py",
)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a house that has the page's files in it; all others are links to ours."""
    folder = tmp_path_factory.mktemp("house")
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT, folder / "masquerade", copy_function=os.symlink, ignore=skipped)
    for name, block in FILES.items():
        (folder / "masquerade" / name).write_text(block)
    for room, line in LINES:
        table = folder / "masquerade" / room / "__init__.py"
        listed = table.read_text()
        table.unlink()
        table.write_text(listed.replace("ENTRIES = {", f"ENTRIES = {{\n{line}"))
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(words: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=env, cwd=REPO, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_has_a_file_for_each_kind_of_entry() -> None:
    assert {name.split("/")[0] for name in FILES} >= {
        "mechanisms",
        "training",
        "networks",
        "datasets",
        "audits",
        "attacks",
    }


def test_every_file_of_the_page_passes_the_tests_of_its_kind(extended: dict[str, str]) -> None:
    names = [Path(name).stem for name in FILES if not name.startswith(("networks/", "attacks/"))]
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-vv", *CONTRACTS, "-k", " or ".join(names)]
    said = run(words, extended)
    for name in names:
        assert re.search(rf"\[{name}\b.*PASSED", said), f"no test of {name}"


def test_every_file_of_the_page_is_formatted(extended: dict[str, str]) -> None:
    pytest.importorskip("ruff")
    files = [f"{extended['PYTHONPATH']}/masquerade/{name}" for name in FILES]
    setup = ("--config", str(REPO / "pyproject.toml"))
    run(["-m", "ruff", "format", "--check", *setup, *files], extended)
    run(["-m", "ruff", "check", *setup, *files], extended)


@pytest.mark.slow
def test_every_file_of_the_page_is_typed(extended: dict[str, str]) -> None:
    pytest.importorskip("mypy")
    house = extended["PYTHONPATH"]
    files = [f"{house}/masquerade/{name}" for name in FILES]
    setup = ("--config-file", str(REPO / "pyproject.toml"), "--cache-dir", f"{house}/types")
    run(["-m", "mypy", *setup, *files], {**extended, "MYPYPATH": house})


def test_a_data_set_of_the_page_reads_a_recording(extended: dict[str, str], tmp_path: Path) -> None:
    code = f"""
import numpy as np, masquerade as mq
np.save({str(tmp_path / "ann_walk.npy")!r}, np.ones((5, 3)))
found = mq.make_collection("step_files", root=__import__("pathlib").Path({str(tmp_path)!r}))
print(len(found), found[0].subject, found[0].activity.tolist())
"""
    assert run(["-c", code], extended) == "1 ann [1, 1, 1, 1, 1]\n"


def test_a_network_of_the_page_is_trained_and_read_again(
    extended: dict[str, str], tmp_path: Path
) -> None:
    code = f"""
import sys; sys.path.append("tests")
from pathlib import Path
import masquerade as mq
from few_films import Few
target = Path({str(tmp_path / "m.safetensors")!r})
method = mq.make_method("dp_sgd", epsilon=8, unit="video", batch=4, epochs=2.0)
network = mq.make_network("colour_line")
mq.train_file(Few(), target, method, network)
print(mq.check_receipt(target).mechanism, mq.evaluate_file(target, Few(), private=True).recordings)
"""
    assert run(["-c", code], extended) == "dp_sgd 8\n"


def test_an_attack_of_the_page_is_run(extended: dict[str, str]) -> None:
    code = """
import numpy as np, masquerade as mq
from masquerade.attacks.attack import Case
films = [
    mq.Video(frames=np.full((2, 16, 16, 3), 40 * n, np.uint8), rate_hz=10, subject=str(n))
    for n in range(6)
]
case = Case(known=films, targets=[films[0]] * 6, raw=films)
(found,) = mq.make_attack("mean_colour").run(case, told=lambda what, done, total: None)
print(*(round(each[0].value, 2) for each in (found.ceiling, found.published)))
"""
    assert run(["-c", code], extended) == "1.0 0.17\n"


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.startswith("# src/")])
def test_every_other_snippet_runs_as_it_stands(block: str, extended: dict[str, str]) -> None:
    assert run(["-c", block], extended).strip()


def test_the_reference_lists_every_public_name_once() -> None:
    listed = re.findall(r"^::: masquerade\.(\w+)$", (REPO / "docs/api.md").read_text(), re.M)
    modules = {"accounting", "audits", "events", "report"}
    assert sorted(listed) == sorted(set(mq.__all__) - modules - {"__version__"})


NAMED = re.findall(r"^::: (masquerade[\w.]*)$", (REPO / "docs/api.md").read_text(), re.M)


@pytest.mark.parametrize("name", NAMED)
def test_every_name_in_the_reference_is_one_of_ours(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", (REPO / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in REPO.glob("docs/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`((?:\w+/)*\w+\.(?:pyi?|md))`", page.read_text())
    places = (REPO, ROOT, ROOT / "noise")
    assert not [name for name in named if not any((place / name).exists() for place in places)]


def test_hooks_before_a_commit_are_those_of_make_lint() -> None:
    hooks = re.findall(r"entry: \.venv/bin/(.*)", (REPO / ".pre-commit-config.yaml").read_text())
    makefile = (REPO / "Makefile").read_text()
    lint = re.findall(r"\$\(BIN\)/((?:ruff|mypy).*)", makefile.partition("\nlint:")[2][:200])
    assert [hook.split() for hook in hooks] == [
        line.replace("--check", "").replace(" .", "").split() for line in lint
    ]
