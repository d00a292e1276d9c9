"""The short page of results says what the long ones say."""

from __future__ import annotations

import runpy
from pathlib import Path

REPO = Path(__file__).parents[2]


def test_the_short_page_is_taken_from_the_long_ones_as_they_are() -> None:
    made = runpy.run_path(str(REPO / "benchmarks/short_results.py"))["short"]()
    assert made == (REPO / "docs/results.md").read_text(encoding="utf-8"), (
        "run python benchmarks/short_results.py"
    )
    assert len(made.splitlines()) <= 150, "short enough to read"
