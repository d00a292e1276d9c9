"""The notebook runs from top to bottom, as it stands, without Jupyter."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


def read() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return found


def test_the_notebook_is_published_without_outputs() -> None:
    cells = read()
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert cells[0]["cell_type"] == "markdown"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    screen: Any = ModuleType("IPython.display")  # what Jupyter would draw is looked up, not drawn
    screen.display = lambda thing: shown.append(Path(thing).suffix)
    screen.SVG = lambda *, filename: filename
    screen.Video = lambda path, *, embed: path
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in read():
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    said = capsys.readouterr().out
    assert "does not protect a whole person" in said and "Wrote try/sheet.svg" in said
    assert "Release 1 was made." in said and "was refused. " in said
    assert "showed at least" in said and shown == [".svg", ".mp4"]
