"""A folder of many small files: what a file costs does not grow with how many there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import masquerade as mq
from masquerade.io import atomic
from masquerade.publish.folder import FolderSettings

NOISE = mq.make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="value", low=0.0, high=1.0)


def sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int) -> int:
    """How often a folder was looked through while so many files were released."""
    source = tmp_path / f"in{files}"
    source.mkdir()
    for number in range(files):
        np.save(source / f"{number}.npy", np.zeros(4))
    looked, sweep = [], atomic.remove_dead_files

    def counting(folder: Path) -> int:
        looked.append(folder)
        return sweep(folder)

    monkeypatch.setattr(atomic, "remove_dead_files", counting)
    done = mq.release_folder(source, tmp_path / f"out{files}", NOISE, work=FolderSettings(jobs=1))
    monkeypatch.setattr(atomic, "remove_dead_files", sweep)
    assert [outcome.error for outcome in done] == [None] * files
    return len(looked)


def test_no_file_looks_at_all_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sweeps(tmp_path, monkeypatch, 2) == sweeps(tmp_path, monkeypatch, 12)


def test_a_folder_gives_the_receipts_that_stand_beside_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        np.save(tmp_path / "in" / f"{number}.npy", np.zeros(4 + number))
    for jobs in (2, 1):  # then they stand there already
        done = mq.release_folder(
            tmp_path / "in",
            tmp_path / "out",
            NOISE,
            options=mq.FileSettings(if_standing="resume"),
            work=FolderSettings(jobs=jobs),
        )
        for outcome in done:
            assert outcome.target is not None
            beside = outcome.target.with_name(outcome.target.name + ".receipt.json")
            assert outcome.receipt == mq.Receipt.from_json(beside.read_text())
