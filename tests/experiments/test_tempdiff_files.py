"""TEMPDIFF in the paper's setting, on files in the layouts of its two data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.engine import main
from masquerade.datasets.pamap2 import COLUMNS

pytest.importorskip("torch").set_num_threads(1)

FEW = ("--setting", "paper", "--sizes", "2", "4", "--gammas", "0.1", "0.5", "--queries", "8", "10")
FEW += ("--windows", "10", "20", "--teacher-epochs", "1", "--student-epochs", "1", "--hidden", "4")
FEW += ("--batch", "8", "--learning-rate", "0.01", "--seeds", "1", "--num-processes", "1")
PEOPLE, ROWS = 5, 80  # rows of each of three activities


def three(rng: np.random.Generator) -> np.ndarray:
    """(3, ROWS, 3): what a sensor reads in three activities."""
    time = np.arange(ROWS)
    return np.stack(
        [
            activity + np.sin(time / (1 + activity))[:, None] + rng.normal(0, 0.1, (ROWS, 3))
            for activity in range(3)
        ]
    )


def write_wisdm(root: Path) -> None:
    folder = root / "raw" / "phone" / "accel"
    folder.mkdir(parents=True)
    (root / "activity_key.txt").write_text("walking = A\n")
    for subject in range(1600, 1600 + PEOPLE):
        values = three(np.random.default_rng(subject))
        rows = [
            f"{subject},{letter},{50_000_000 * (number * ROWS + row)},{x:.4f},{y:.4f},{z:.4f};"
            for number, letter in enumerate("ABD")
            for row, (x, y, z) in enumerate(values[number])
        ]
        (folder / f"data_{subject}_accel_phone.txt").write_text("\n".join(rows) + "\n")


def write_pamap2(root: Path) -> None:
    (root / "Protocol").mkdir(parents=True)
    for subject in range(101, 101 + PEOPLE):
        values = three(np.random.default_rng(subject)).reshape(-1, 3)
        table = np.zeros((len(values), COLUMNS))
        table[:, 0] = np.arange(len(values)) / 100
        table[:, 1] = np.repeat([1, 4, 5], ROWS)  # lying, walking, running
        for place in (4, 10, 21, 27, 38, 44):  # accelerometer and gyroscope of each
            table[:, place : place + 3] = values
        np.savetxt(root / "Protocol" / f"subject{subject}.dat", table, fmt="%.4f")


def who(first: int) -> tuple[str, ...]:
    """Two people are public and one is tested, so that two are private."""
    return ("--public-subjects", f"{first},{first + 1}", "--test-subjects", str(first + 2))


@pytest.mark.parametrize(
    ("name", "write", "first"), [("wisdm", write_wisdm, 1600), ("pamap2", write_pamap2, 101)]
)
def test_the_papers_setting_runs_on_files_of_its_data_sets(
    name: str, write: Any, first: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    write(root)
    people = ("--subjects", *(str(first + number) for number in range(PEOPLE)))
    words = ("--data", name, "--root", root, *people, *who(first), *FEW, "--out", out)
    assert main(["tempdiff", *map(str, words), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["people"] == 2 and done["queries"] == [8, 10]
    cells = [one for one in done["scores"] if one["gamma"]]
    assert {(one["who"], one["teachers"]) for one in cells if one["queries"] == 8} == {
        (who, size) for who in ("tempdiff", "pate") for size in (2, 4)
    }
    assert {one["teachers"] for one in cells if one["queries"] == 10} == {4}
    for one in cells:
        (claim,) = one["claims"]
        assert 0 < claim["teacher"] <= claim["person"] and one["aggregator"] == "lnmax"
    assert all(one["is_alone"] for one in done["scores"]), "students as published"
    assert all(one["by"] == "time" for one in done["ensembles"])
    shown = (out / "table.md").read_text()
    assert "in an appendix that the preprint does not hold" in shown
    assert (out / f"tempdiff_{name}_lstm_published.svg").is_file()
