"""MaskDP's tables: what is said follows from the cells, and every view is the one that is meant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from conftest import python
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.collection import About, Collection, Count, Kind, Labels
from masquerade.data.stage import Stage
from masquerade.errors import BadInput
from masquerade.recordings import Video

torch = pytest.importorskip("torch")

from masquerade.nets import mvit  # noqa: E402
from masquerade.recipes import mask_dp, mask_dp_cells, mask_dp_rows, mask_dp_text  # noqa: E402
from masquerade.recipes.mask_dp_cells import Cell, Setting  # noqa: E402
from masquerade.recipes.mask_dp_rows import Wanted  # noqa: E402
from masquerade.recipes.mask_dp_text import Found  # noqa: E402
from masquerade.train import mask_dp as published  # noqa: E402
from masquerade.train import method  # noqa: E402
from masquerade.train.plan import Plan  # noqa: E402
from masquerade.train.views import FILL, Private  # noqa: E402

ROWS = ("DP", "MultiClip", "MaskDP", "MaskDP, shared batch", "public part only", "DP from scratch")


@pytest.fixture(autouse=True, scope="module")
def _quietly() -> Iterator[None]:
    """One thread; what a plan costs is asked for again and again, the paper's not at all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "epsilon", cache(Plan.epsilon))
        patch.setattr(method, "calibrated", cache(method.calibrated))
        patch.setattr(published, "renyi_noise_multiplier", lambda target, **of: 0.9)
        yield
    torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class Noisy(Collection[Video]):
    """Six films of noise to learn from, four to test on."""

    ABOUT: ClassVar[About] = About(
        title="Noisy", kind=Kind.VIDEOS, licence="none", home="", citation=""
    )
    split: str = "all"
    activity: str | None = None

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk", "run")

    def check(self) -> tuple[Count, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=str(number)) for number in range(6 if self.split == "train" else 4)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng((index, len(self)))
        mask = np.zeros((20, 64, 64), bool)
        mask[:, 10:40, 20:40] = True
        frames = rng.integers(0, 256, (20, 64, 64, 3), np.uint8)
        activity = self.activity or self.activities[index % 2]
        return Video(frames=frames, rate_hz=10, activity=activity, person_mask=mask)


TINY = mask_dp.MaskDpTables(quick=True, epochs=1.0, batch=3, from_scratch=False)


def cell(name: str, epsilon: float, *top_1: float) -> Cell:
    proved = {"zero_out": epsilon / 2, "replace_one": epsilon} if epsilon < math.inf else {}
    return Cell(
        method=name,
        unit=mask_dp_cells.ROWS[name].unit,
        epsilon=epsilon,
        top_1=top_1,
        per_class={"walk": top_1, "run": top_1},
        proved={} if name == "public part only" else proved,
        noise_multiplier=1.0,
        steps=9,
    )


def found(*cells: Cell, **setting: Any) -> Found:
    public = [cell("public part only", e, 0.5, 0.52) for e in {one.epsilon for one in cells}]
    return Found(
        cells=(*cells, *public),
        setting=Setting(seeds=2, **setting),
        about="nobody",
        units=6,
        tested=4,
    )


def said(table: Found, part: str) -> str:
    (line,) = [one for one in mask_dp_text.sentences(table) if part in one]
    return line


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ((0.80, 0.82), (0.60, 0.62), "Yes"),
        ((0.60, 0.62), (0.80, 0.82), "No"),
        ((0.60, 0.70), (0.62, 0.74), "Within the spread"),
        ((0.80,), (0.60,), "Not known from one seed"),
    ],
)
@pytest.mark.parametrize(
    ("pair", "question"),
    [
        (("MaskDP", "DP"), "ahead of DP at equal epsilon"),
        (("MultiClip", "DP"), "Is MultiClip ahead"),
        (("DP", "DP from scratch"), "ahead of training from scratch"),
    ],
)
def test_the_sentences_follow_from_the_cells(
    ours: tuple[float, ...],
    theirs: tuple[float, ...],
    answer: str,
    pair: tuple[str, str],
    question: str,
) -> None:
    table = found(cell(pair[0], 1.0, *ours), cell(pair[1], 1.0, *theirs))
    line = said(table, question)
    assert f"? {answer}; epsilon 1: {mask_dp_text.score(ours)} against" in line
    assert mask_dp_text.score(theirs) in line


def test_one_epsilon_behind_is_a_no_for_every_epsilon() -> None:
    table = found(
        *(cell("MaskDP", e, *top) for e, top in ((0.1, (0.7, 0.7)), (1.0, (0.4, 0.4)))),
        *(cell("DP", e, 0.5, 0.5) for e in (0.1, 1.0)),
    )
    line = said(table, "ahead of DP at equal epsilon")
    assert "? No; epsilon 0.1: 70.0 ± 0.0 against 50.0 ± 0.0, ahead; epsilon 1" in line
    beyond = found(*table.cells[:3], cell("DP", 1.0, 0.3, 0.3), cell("MaskDP", 5.0, 0.1, 0.1))
    assert "? Yes" in said(beyond, "ahead of DP at equal epsilon"), "5 is not asked about"
    assert "epsilon 5: 10.0" in said(beyond, "ahead of its public part")


def test_equal_epsilons_are_named_under_both_relations() -> None:
    pair = cell("MaskDP", 1.0, 0.5, 0.5), cell("DP", 1.0, 0.5, 0.5)
    assert "compared at zero_out 0.5, replace_one 1." in said(found(*pair), "were compared")
    other = replace(pair[1], proved={"zero_out": 1.0, "replace_one": 2.1})
    line = said(found(pair[0], other), "were compared")
    assert "MaskDP zero_out 0.5, replace_one 1, DP zero_out 1, replace_one 2.1" in line


def test_the_published_form_shows_its_true_epsilon() -> None:
    shared = replace(
        cell("MaskDP, shared batch", 1.0, 0.5, 0.5), proved={"zero_out": 2.7, "replace_one": 6.2}
    )
    table = found(shared)
    assert "(CLAIMED, NOT VALID: 1; true: zero_out 2.7, replace_one 6.2)" in mask_dp_text.table(
        table
    )
    assert "claims 1, costs zero_out 2.7, replace_one 6.2" in said(table, "as published")
    assert "CLAIMED" not in mask_dp_text.table(found(cell("MaskDP", 1.0, 0.5, 0.5)))


@pytest.mark.parametrize(
    ("side", "words"), [("background", "people"), ("person", "background with the outline")]
)
def test_the_text_says_which_side_is_public(side: str, words: str) -> None:
    full = cell("DP", math.inf, 0.9, 0.9)
    line = said(found(full, private=side), "Private:")
    assert f"public: {words}" in line and "50.0" in line and "not mostly" in line
    near = replace(full, top_1=(0.55, 0.55))
    assert "is mostly in what is public" in said(found(near, private=side), "Private:")


def test_the_private_side_reaches_every_method_that_has_one() -> None:
    for name in ("MaskDP", "MaskDP, shared batch", "public part only"):
        made = Setting(private="person", batch=9).method(name, 1.0)
        assert made.private == "person" and made.public_batch == 9  # type: ignore[attr-defined]
        assert Setting().method(name, 1.0).private == "background"  # type: ignore[attr-defined]


def test_a_table_without_the_public_part_is_refused() -> None:
    with pytest.raises(ValueError, match="public part only"):
        Found(cells=(cell("DP", 1.0, 0.5),), setting=Setting(), about="", units=1, tested=1)
    for plan in (TINY, mask_dp.MaskDpTables(), mask_dp.MaskDpTables(private="person")):
        assert plan.wanted["public part only"] == plan.wanted["DP"]


def test_quick_has_every_kind_of_row() -> None:
    quick = mask_dp.MaskDpTables(quick=True)
    assert tuple(quick.wanted) == ROWS and quick.wanted["DP from scratch"] == (1.0,)
    assert mask_dp.MaskDpTables().wanted == dict.fromkeys(ROWS, mask_dp.EPSILONS)
    assert quick.setting.part == "head" and quick.setting.scratch_epochs == 2


def test_rows_are_compared_at_equal_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "renyi_noise_multiplier", renyi_noise_multiplier)
    plans = {name: Setting(epochs=2.0).method(name, 1.0).plan(864) for name in ROWS}
    same = {plans[name].noise_multiplier for name in ("DP", "MultiClip", "MaskDP")}
    assert len(same) == 1
    assert plans["MaskDP, shared batch"].noise_multiplier < min(same)
    assert plans["public part only"].noise_multiplier == 0
    assert plans["DP from scratch"].steps > plans["DP"].steps


def test_each_view_is_the_one_that_is_meant() -> None:
    data, net = Noisy(split="train"), Setting().net(2)
    trunk, _ = mvit.split(net, "all")  # gives the films themselves
    wanted = Wanted(segments=3, private=Private.PERSON, has_films=True)
    held = mask_dp_rows.read(data, net, trunk, wanted, device="cpu")
    assert held.whole.shape == (6, 3, 3, 16, 64, 64)
    assert torch.equal(held.films, held.whole[:, 1]) and torch.equal(held.middle, held.films)
    assert not torch.equal(held.whole[:, 0], held.whole[:, 2]), "20 frames: segments differ"
    grey = (FILL / 255 - 0.45) / 0.225
    inside, outside = (slice(10, 40), slice(20, 40)), (slice(46, 60), slice(46, 60))
    assert torch.allclose(held.public[..., *inside], torch.tensor(grey))
    assert torch.equal(held.public[..., *outside], held.films[..., *outside])
    many = held.rows(segments=3)
    assert many.units == 6 and many.slots[1].tolist() == [3, 4, 5]
    assert torch.equal(many.private[4], held.whole[1, 1])
    assert many.targets.tolist() == [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3
    one = held.rows(has_public=True)
    assert torch.equal(one.private, held.films) and torch.equal(one.public, held.public)


def test_views_that_are_not_held_are_refused() -> None:
    data, net = Noisy(split="test"), Setting().net(2)
    trunk, _ = mvit.split(net, "head")
    held = mask_dp_rows.read(data, net, trunk, Wanted(), device="cpu")
    for wrong in ({"segments": 3}, {"has_public": True}):
        with pytest.raises(ValueError, match="held"):
            held.rows(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has_films"):
        held.film_rows()
    with pytest.raises(ValueError, match="odd"):
        Wanted(segments=2)
    with pytest.raises(BadInput, match="activity of the list"):
        mask_dp_rows.read(replace(data, activity="fly"), net, trunk, Wanted(), device="cpu")


def test_table_and_json_agree(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    plan = replace(TINY, out=tmp_path / "out", page=page)
    answer = plan.run(Noisy())
    data = json.loads((plan.out / "results.json").read_text())
    text = (plan.out / "table.md").read_text()
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    assert set(ROWS[:-1]) <= set(lines)
    for one in data["cells"]:
        assert mask_dp_text.shown(Cell.of(one)) in lines[one["method"]]
        assert one["unit"] in lines[one["method"]] and len(one["top_1"]) == 2
    assert data["views"] == "real" and data["units"] == 6 and data["tested"] == 4
    assert all(sentence in text for sentence in data["sentences"])
    assert "of one run alone" in data["sentences"][-1] and answer.data["cells"] == data["cells"]
    assert text.rstrip("\n") in page.read_text() and "--quick" in data["origin"]
    assert (tmp_path / "results" / "mask_dp_figure_5.svg").read_text().count('class="bar"') == 6
    assert "MaskDP, shared batch" in (plan.out / "mask_dp_top_1.svg").read_text()
    assert not (plan.out / "cells.json").exists(), "a finished run is measured anew"


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(TINY, out=tmp_path)
    whole = mask_dp.measure(plan, Noisy())
    trained: list[str] = []
    monkeypatch.setattr(mask_dp_cells.loop, "run", lambda *a, **k: trained.append("run"))
    assert mask_dp.measure(plan, Noisy()).cells == whole.cells and not trained
    kept = json.loads((tmp_path / "cells.json").read_text())
    kept["cells"].pop(1)
    (tmp_path / "cells.json").write_text(json.dumps(kept))
    mask_dp.measure(plan, Noisy())
    assert len(trained) == 2, "the missing cell, two seeds"
    other = replace(plan, epochs=2.0)
    assert mask_dp._Kept(tmp_path / "cells.json", other, whole.about).read() == ((), 0.0)
    cells, seconds = mask_dp._Kept(tmp_path / "cells.json", plan, whole.about).read()
    assert len(cells) == 15 and seconds > whole.seconds, "both runs together"


def test_from_scratch_trains_the_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    data, setting = Noisy(split="train"), Setting(seeds=1, batch=3, scratch_epochs=0.5)
    net = setting.net(2)
    trunk, _ = mvit.split(net, "head")
    held = mask_dp_rows.read(data, net, trunk, Wanted(has_films=True), device="cpu")
    seen: list[int] = []
    real = mask_dp_cells.loop.run

    def watched(tail: Any, *rest: Any, **options: Any) -> None:
        seen.append(sum(p.numel() for p in tail.parameters() if p.requires_grad))
        real(tail, *rest, **options)

    monkeypatch.setattr(mask_dp_cells.loop, "run", watched)
    wanted = {"DP from scratch": (5.0,)}
    (one,) = mask_dp_cells.measured(setting, wanted, (held, held), data.activities)
    assert seen[0] > 900_000 and one.proved["replace_one"] <= 5 and one.steps == 1
    with pytest.raises(ValueError, match="--no-from-scratch"):
        mask_dp.MaskDpTables(network="mvit_v2_s")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_before_anything_is_drawn() -> None:
    with pytest.raises(ValueError, match="GPU"):
        mask_dp.measure(replace(TINY, device="cuda"), Noisy())


def test_the_command_is_the_one_that_was_given() -> None:
    plan = mask_dp.MaskDpTables(private="person", from_scratch=False, out=Path("x"))
    assert mask_dp._flags(plan) == ["--private person", "--no-from-scratch"]
    assert mask_dp._flags(Stage(correlation=0.9)) == ["--correlation 0.9"]
    sized = mask_dp._sized(Stage(videos=36))
    assert (sized.videos, sized.frames, sized.correlation) == (36, 20, 0.5)
    assert "36 videos of 20 frames" in mask_dp._about(sized)


def test_measuring_needs_no_camera_ledger_or_screen() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('av', 'cv2', 'sqlalchemy', 'tyro', 'rich', 'numba'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from masquerade.recipes import mask_dp\n"
        "print(mask_dp.measure.__name__)\n"
    )
    assert python(code).strip() == "measure"
