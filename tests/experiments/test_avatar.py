"""Learning from avatars: rows on the page, aims, what is resumed, and MaskDP's rows beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_avatars
from conftest import python
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput

torch = pytest.importorskip("torch")
pytest.importorskip("cv2")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")

from experiments import avatar_films, mask_dp, videos  # noqa: E402
from experiments.avatar import (  # noqa: E402
    CLAIMS,
    EXPERIMENT,
    AvatarFound,
    AvatarRow,
    AvatarSettings,
    Gap,
    measure_rows,
    write_page,
)
from experiments.avatar_films import Summary  # noqa: E402
from experiments.claims import Cells, write_sentences  # noqa: E402
from experiments.engine import Journal, Run  # noqa: E402
from experiments.mask_dp import ACROSS, AVATARS, CONTEXT, REAL, MaskDpSettings  # noqa: E402
from experiments.mask_dp import MaskDpCell as Cell  # noqa: E402
from experiments.mask_dp import MaskDpFound as Found  # noqa: E402

STAGE = Stage(**fake_avatars.WORLD)  # type: ignore[arg-type]
SHOWN = ("real", "isolated", "emptied", "avatars")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Films of blocks are released in a folder of this test; public ones lie there."""
    monkeypatch.setattr(avatar_films, "make_film", fake_avatars.made)
    of = avatar_films.AvatarFilms.of
    monkeypatch.setattr(avatar_films.AvatarFilms, "of", lambda stage: of(stage, folder=tmp_path))
    public = of(STAGE.select_part("public"), folder=tmp_path / "public")
    public.path(0).parent.mkdir(parents=True)
    for number in range(len(public)):
        public.path(number).write_bytes(fake_avatars.made(public.stage, number).to_bytes())
    monkeypatch.setattr(videos, "make_examples", lambda stage: public)
    return tmp_path


def row(shown: Any, own: tuple[float, ...], real: tuple[float, ...], films: int = 400) -> AvatarRow:
    def each(shares: tuple[float, ...]) -> tuple[float, ...]:
        right = round(films * float(np.mean(shares)))
        return (1.0,) * right + (0.0,) * (films - right)

    return AvatarRow(shown=shown, own=own, real=real, own_each=each(own), real_each=each(real))


def found(*avatars: float, seeds: int = 2) -> AvatarFound:
    summary = Summary(
        films=9, without=1, frames=90, undrawn=3, outside=0.01, visible=0.02, shown_films=1,
        blurred=4, certain=0.05,
    )  # fmt: skip
    rows = [row(shown, (0.5, 0.5), (0.5, 0.5)) for shown in SHOWN[1:3]]
    drawn = row("avatars", avatars, avatars)
    real = row("real", (0.9,) * len(avatars), (0.9,) * len(avatars))
    return AvatarFound(
        rows=(real, *rows, drawn),
        settings=AvatarSettings(seeds=seeds),
        about="nobody",
        units=800,
        summary=summary,
    )


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ((0.9, 0.9), "met"),
        ((0.6, 0.6), "missed"),
        ((0.85, 0.85), "not shown"),
        ((0.9,), "not known from one run"),
    ],
)
def test_an_aim_is_met_or_missed_beyond_twice_the_error(
    shares: tuple[float, ...], says: str
) -> None:
    told = list(write_sentences(found(*shares), CLAIMS))
    assert told[0].startswith("Learned from avatars and tested on avatars: ")
    assert told[0].endswith(f"within 5 points: {says}.") and told[1].endswith(f": {says}.")


def test_the_gap_counts_runs_and_films_that_both_were_tested_on() -> None:
    gap = found(0.6, 0.7).gap("avatars", asked_real=False)
    assert gap.mean == pytest.approx(0.25)
    spread = np.std([0.6, 0.7], ddof=1) / math.sqrt(2)
    films = math.sqrt(0.25 * 0.75 / 400)  # a quarter of films is lost, none is won
    assert gap.error == pytest.approx(math.hypot(spread, films)) and gap.word == "behind"
    assert Gap(mean=0.0, error=math.nan, word="not known from one run").says.startswith("not known")


def test_every_row_stands_on_the_page_and_the_refined_one_says_why_not() -> None:
    text = write_page(found(0.8, 0.8)).text
    assert "| original films | nothing | 90.0 ± 0.0 (1.5) |" in text
    assert "| figures alone, on grey | people and places | 50.0 ± 0.0 (2.5) |" in text
    assert "| avatars, refined | people | not measured: refinement needs networks" in text
    assert "Of 9 released films 1 show no figure, and 3 of 90 frames with people." in text
    assert "n = 2 runs" in text and "Nothing here has an epsilon." in text
    plain = write_page(found(0.8, 0.8)).data
    assert [one["shown"] for one in plain["rows"]] == list(SHOWN) and len(plain["gaps"]) == 8
    assert "avatars, refined" in plain["missing"] and "own_each" not in plain["rows"][0]


def test_a_stopped_run_goes_on_where_it_was(blocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = AvatarSettings(out=blocks / "out", page=blocks / "page.md", epochs=1.0, seeds=2, jobs=1)
    learned: list[int] = []
    real = videos.loop.run_training

    def watched(*rest: Any, **options: Any) -> None:
        if len(learned) == 5:
            learned.append(0)
            raise KeyboardInterrupt
        learned.append(1)
        real(*rest, **options)

    monkeypatch.setattr(videos.loop, "run_training", watched)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(plan, STAGE)
    kept = Journal.open(plan, STAGE).held
    assert (
        list(kept) == ["films", "real", "isolated"]
        and len(list(blocks.glob("videos-*/**/*.npz"))) == 36
    )
    answer = EXPERIMENT.run(plan, STAGE)
    assert sum(learned) == 5 + 4, "two rows of two runs were left"
    assert answer.data["rows"][0]["own"] == list(kept["real"]["own"])
    assert answer.data["tested"] == 12 and answer.data["units"] == 24
    page = (blocks / "page.md").read_text()
    assert "## Learning from avatars" in page and "| avatars in their places | people |" in page
    assert (blocks / "out" / "results.json").is_file() and "avatar_top_1" in page


def test_mask_dp_learns_from_avatars_beside_real_films(blocks: Path) -> None:
    plan = MaskDpSettings(
        out=blocks / "out", render=True, quick=True, epsilons=(5.0, math.inf), epochs=1.0, batch=12,
        mask_batch=12, public_batch=12, seeds=1, jobs=1,
    )  # fmt: skip
    answer = mask_dp.EXPERIMENT.run(plan, STAGE)
    kinds = {(one["films"], one["method"]) for one in answer.data["cells"]}
    assert kinds == {(films, name) for films in (REAL, AVATARS, ACROSS) for name in CONTEXT}
    text = (blocks / "out" / "table.md").read_text()
    for films in (REAL, AVATARS, ACROSS):
        assert f"| MaskDP, {films} | private pixels of one recording |" in text
    assert "Public is eroded r" in text and "MaskDP, avatars, against DP, original films" in text
    assert set(answer.data["setting"]) >= {"render"}
    alone = {
        one["films"]: one["top_1"]
        for one in answer.data["cells"]
        if one["method"] == "public weights alone" and one["epsilon"] is None
    }
    assert alone[ACROSS] == alone[REAL], "asked of the same films, and nothing was learned"


def cell(method: str, films: str, *top_1: float) -> Cell:
    return Cell(
        method=method,
        epsilon=1.0,
        films=films,
        top_1=top_1,
        per_class={"walk": top_1},
        proved={},
        noise_multiplier=1.0,
        steps=1,
        tested=1000,
    )


def test_rows_of_two_kinds_of_films_are_compared() -> None:
    table = Found(
        cells=Cells(
            (
                cell("public part only", REAL, 0.5, 0.5),
                cell("DP", REAL, 0.5, 0.52),
                cell("MaskDP", AVATARS, 0.7, 0.72),
                cell("MaskDP", ACROSS, 0.3, 0.3),
            )
        ),
        settings=MaskDpSettings(render=True).settle(),
        about="nobody",
        units=6,
        tested=1000,
    )
    told = [one for one in mask_dp.write_pairs(table) if ", against " in one]
    assert told[0].startswith(
        "MaskDP, avatars, against DP, original films: ahead at every epsilon."
    )
    assert told[1].startswith(
        "MaskDP, avatars, tested on original films, against DP, original films: beh"
    )
    assert {one["films"] for one in mask_dp.list_comparisons(table) if "films" in one} <= {
        REAL,
        AVATARS,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"private": "person"},
        {"masks": Path("masks")},
        {"correlations": (0.5,)},
        {"membership": 6},
        {"from_scratch": True},
    ],
)
def test_what_does_not_go_with_avatars_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"without --{name.replace('_', '-')}"):
        MaskDpSettings(render=True, **wrong)


def test_films_of_others_are_never_kept() -> None:
    from masquerade.datasets.folder import Folder

    others = Folder(root=Path())
    with pytest.raises(BadInput, match="--data stage"):
        measure_rows(Run(settings=AvatarSettings(), data=others))
    with pytest.raises(ValueError, match="--data stage with --render"):
        mask_dp.measure_tables(Run(settings=MaskDpSettings(render=True), data=others))


def test_both_tables_are_of_the_same_films() -> None:
    for is_quick in (True, False):
        plan = MaskDpSettings(render=True, quick=is_quick)
        assert mask_dp.size_stage(plan, Stage()) == avatar_films.size_stage(
            Stage(), is_quick=is_quick
        )
    small = replace(avatar_films.size_stage(Stage()), height=96)
    assert small.world.height == 96 and avatar_films.size_stage(Stage()).world.height == 224


def test_measuring_on_avatars_needs_no_camera_ledger_or_screen() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('av', 'sqlalchemy', 'tyro', 'rich', 'numba'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from experiments import avatar\n"
        "print(avatar.EXPERIMENT.measure.__name__)\n"
    )
    assert python(code).strip() == "measure_rows"
