"""What is public of some footage: one file of it, under one mask, in all runs together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from few_films import Few, trains
from masquerade.errors import BadInput
from masquerade.events import NoOpDpEvent
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.ledger import Content, Ledger, Run
from masquerade.ledger.filter import FilterName
from masquerade.publish import bills
from masquerade.publish.models import make_method
from masquerade.recordings import Video

FREE = {Relation.ZERO_OUT: NoOpDpEvent(), Relation.REPLACE_ONE: NoOpDpEvent()}


@dataclass(frozen=True, kw_only=True)
class Halves(Few):
    """Four films, each listed twice, with masks that together show all of it."""

    is_turned: bool = True

    def _load(self, index: int) -> Video:
        video = super()._load(index % 4)
        assert video.person_mask is not None
        is_turned = self.is_turned and index >= 4
        return replace(video, person_mask=~video.person_mask if is_turned else video.person_mask)


def enrolled(path: Path, films: Any) -> Ledger:
    ledger = Ledger(path / "budget.db")
    ledger.open_account(
        "ward",
        Unit(name=UnitName.VIDEO),
        epsilon=20.0,
        delta=1e-5,
        rule=FilterName.RENYI,
        public="people",
    )
    ledger.add_contents("ward", [(Content.from_value(video), None) for video in films])
    return ledger


def run_of(films: Any, masks: tuple[bytes, ...], name: str = "r", public: str = "people") -> Run:
    contents = tuple(Content.from_value(video) for video in films)
    return Run(
        run_id=name,
        method="public_part",
        fields={},
        events=FREE,
        public=public,
        contents=contents,
        masks=masks,
        units=tuple(range(len(contents))),
    )


def spends(ledger: Ledger) -> int:
    return sum(entry.kind == "reserve" for entry in ledger.read_entries())


def test_masks_stay_what_they_were_for_an_account(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, Few())
    run = run_of(Few(), (b"a",) * 8)
    ledger.reserve_run(run)
    ledger.reserve_run(replace(run, run_id="again"))
    with pytest.raises(ValueError, match="other ones for 3 recordings"):
        ledger.reserve_run(replace(run, run_id="all", masks=(b"a",) * 5 + (b"b",) * 3))
    ledger.reserve_run(replace(run, run_id="whole", public="nothing", masks=(b"b",) * 8))
    assert spends(ledger) == 3


def test_footage_that_is_listed_twice_has_one_mask_in_a_run(tmp_path: Path) -> None:
    ledger, film = enrolled(tmp_path, Few()), Few()[0]
    for ask in (ledger.quote_run, ledger.reserve_run):
        with pytest.raises(ValueError, match="other ones for 1 recordings"):
            ask(run_of([film, film], (b"people", b"the rest")))
    assert spends(ledger) == 0
    ledger.reserve_run(run_of([film, film], (b"people",) * 2))


def test_of_files_of_the_same_footage_one_has_a_public_part(tmp_path: Path) -> None:
    films = list(Few())
    ledger = enrolled(tmp_path, films[:2])
    trim = films[0].frames[1:]
    ledger.add_content("ward", trim, same_as=Content.from_value(films[0]))
    for masks in ((b"a", b"b"), (b"a", b"a")):  # equal masks show other pixels of a trim
        with pytest.raises(ValueError, match="of files added with --same-as, one"):
            ledger.reserve_run(run_of([films[0], trim], masks))
    ledger.reserve_run(run_of([films[0], films[1]], (b"a", b"b")))
    for mask in (b"a", b"b"):
        with pytest.raises(ValueError, match="other ones for 1 recordings"):
            ledger.reserve_run(run_of([trim], (mask,), "later"))
    ledger.reserve_run(run_of([trim], (b"b",), "whole", public="nothing"))
    assert spends(ledger) == 2


def test_a_run_that_is_taken_up_has_the_masks_that_it_began_with(tmp_path: Path) -> None:
    ledger, film = enrolled(tmp_path, Few()), Few()[0]
    first = ledger.reserve_run(run_of([film], (b"a",)))
    assert ledger.reserve_run(run_of([film], (b"a",))) == first
    with pytest.raises(BadInput, match="go on with the run that was charged"):
        ledger.reserve_run(run_of([film], (b"b",)))


@pytest.mark.parametrize("masks", [(), (b"a", b"")])
def test_a_public_part_without_a_mask_for_each_is_refused(masks: tuple[bytes, ...]) -> None:
    with pytest.raises(BadInput, match="a person mask with every recording"):
        run_of(list(Few())[:2], masks)
    assert run_of(list(Few())[:2], (), public="nothing").masks == ()


@pytest.mark.parametrize("has_ledger", [True, False])
def test_complementary_masks_of_one_film_teach_nothing(tmp_path: Path, has_ledger: bool) -> None:
    ledger = enrolled(tmp_path, Few()) if has_ledger else None
    told: list[str] = []
    with pytest.raises(ValueError, match="one mask"):
        trains(
            tmp_path / "m.safetensors",
            Halves(),
            "public_part",
            ledger=ledger,
            progress=lambda what, done, total: told.append(what),
        )
    assert set(told) == {"reading"} and not list(tmp_path.glob("m*"))
    assert ledger is None or spends(ledger) == 0
    trains(tmp_path / "m.safetensors", Halves(is_turned=False), "public_part", ledger=ledger)


def test_a_dry_run_refuses_the_masks_that_a_run_would(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, Few())
    method = make_method("public_part", epsilon=8.0, unit="video")
    cost = bills.make_run_cost(method, [method.plan_run(8)], {})
    quiet: dict[str, Any] = {"unit": "video"}
    with pytest.raises(ValueError, match="other ones for 4 recordings"):
        bills.quote_cost(ledger, Halves(), cost, **quiet)
    with pytest.raises(BadInput, match="a person mask with every recording"):
        bills.quote_cost(ledger, Few(has_mask=False), cost, **quiet)
    bills.quote_cost(ledger, Halves(is_turned=False), cost, **quiet)
