"""A folder of published files: checked and reported as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def test_a_published_folder_is_checked_and_reported_as_a_whole(
    tmp_path: Path, command: Any
) -> None:
    house = tmp_path
    (house / "in").mkdir()
    for name in "abc":
        np.save(house / "in" / f"{name}.npy", np.ones((4, 2)))
    flags = ("--mechanism", "gaussian_noise", "--epsilon", "8", "--delta", "1e-5")
    flags += ("--unit", "frame", "--low", "0", "--high", "2")
    assert command("release", house / "in", house / "out", *flags).code == 0
    done = command("receipt", "check", house / "out")
    assert done.code == 0 and "3 of 3 files agree" in done.out
    assert command("report", house / "out", "--out", house / "page.html").code == 0
    (house / "out" / "stray.npy").write_bytes(b"no receipt")
    done = command("receipt", "check", house / "out", "--json")
    assert done.code == 4 and not done.json["ok"]
    assert [each["ok"] for each in done.json["files"]].count(False) == 1
    (house / "empty").mkdir()
    assert command("receipt", "check", house / "empty").code == 4
