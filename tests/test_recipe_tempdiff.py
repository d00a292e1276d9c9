"""TEMPDIFF's figures: what is said is computed, and a tiny run goes through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.recipes.tempdiff import TempdiffTables
from masquerade.recipes.tempdiff_text import Found, Score, markdown, plots, sentences
from masquerade.train.ensemble.teachers import Private

pytest.importorskip("torch").set_num_threads(1)


def found(*, near: float = 0.80, truth: float = 0.82, pate: float = 0.6) -> Found:
    scores = [
        Score(who="tempdiff", aggregator=name, epsilon=epsilon, right=(0.9,), top_1=(near, near))
        for name in ("gnmax", "gumbel", "lnmax")
        for epsilon in (1.0, 2.0)
    ]
    scores.append(
        Score(who="true labels", aggregator="no noise", epsilon=None, right=(1.0,), top_1=(truth,))
    )
    return Found(
        ensembles={
            ("tempdiff", 10): (1, 0.5, Private(agreement=0.7, failed=0)),
            ("pate", 10): (1, 0.5, Private(agreement=pate, failed=2)),
        },
        noise={10: (0.1, 0.9)},
        gammas=(0.01, 0.1),
        scores=tuple(scores),
        estimates={0.1: (27.7, 1.2, 1.439)},
        queries=50,
        people=40,
        seconds=1.0,
    )


@pytest.mark.parametrize(("near", "word"), [(0.80, "Yes"), (0.70, "No")])
def test_whether_the_student_is_near_is_computed(near: float, word: str) -> None:
    said = " ".join(sentences(found(near=near)))
    assert f"of the same queries? {word}: {100 * near:.1f} against 82.0" in said
    assert "Does temporal partitioning raise the teachers' agreement? Yes: 70.0" in said
    assert "? No: 70.0 against 75.0" in " ".join(sentences(found(pate=0.75)))


def test_the_papers_figure_is_never_called_a_guarantee() -> None:
    shown = markdown(found())
    assert "| 0.1 | 27.7 | 1.2, an estimate | 1.439, an estimate |" in shown
    assert "it is private itself and no guarantee" in shown
    assert json.loads(json.dumps(found().plain()))["people"] == 40
    assert set(plots(found())) == {"tempdiff_noise", "tempdiff_students"}


def test_numbers_of_teachers_must_fit_the_windows() -> None:
    with pytest.raises(ValueError, match="multiples of 2 windows"):
        TempdiffTables(sizes=(9,))


@pytest.fixture(scope="module", autouse=True)
def _world(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


def test_a_tiny_run_writes_its_tables(command: Any, tmp_path: Path) -> None:
    words = ("--wearers", "18", "--sizes", "2", "4", "--queries", "20", "--teacher", "nearest")
    words += ("--quick", "--windows", "96", "128", "--out", tmp_path, "--page", tmp_path / "p.md")
    done = command("recipe", "tempdiff", *words, "--json")
    assert done.code == 0, done.err
    assert {one["method"] for one in done.json["ensembles"]} == {"tempdiff", "pate"}
    assert len(done.json["scores"]) == 10 and done.json["people"] == 6
    assert "TEMPDIFF on Stage" in (tmp_path / "p.md").read_text()
