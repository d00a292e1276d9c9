"""A fault in a private recording: one message, nobody charged, nothing named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from few_films import Few, trains
from few_signals import PRIVATE, PUBLIC, FewSignals, enrolled, pate, teaches, wears
from masquerade.cli.data import _read_all
from masquerade.errors import BadInput
from masquerade.ledger.filter import FilterName
from masquerade.publish import bills
from masquerade.publish.models import make_method
from masquerade.recordings import Video

NAN = replace(PRIVATE, odd={"values": np.full((240, 2), np.nan, np.float32)})


@dataclass(frozen=True, kw_only=True)
class Broken(Few):
    """Films of which one cannot be read."""

    def _load(self, index: int) -> Video:
        if index == 6:
            raise BadInput("Expected a whole video in ward/anna-6.mp4; it is damaged.")
        return super()._load(index)


def message_of(work: Any) -> str:
    with pytest.raises(BadInput) as caught:
        work()
    assert caught.value.__suppress_context__, "no traceback shows what is below"
    return str(caught.value)


def worn(path: Path, data: FewSignals, **other: Any) -> Any:
    how = make_method("dp_sgd", epsilon=2.0, unit="subject", part="all", batch=3, epochs=2.0)
    return wears(path, how, private=data, **other)


def test_every_fault_in_a_private_recording_says_the_same(tmp_path: Path) -> None:
    target = tmp_path / "m.safetensors"
    found = {
        message_of(work)
        for work in (
            lambda: trains(target, Few(strange="fly")),
            lambda: trains(target, Broken()),
            lambda: worn(target, NAN),
            lambda: teaches(target, pate(), private=NAN),
        )
    }
    assert len(found) == 1 and not list(tmp_path.iterdir())
    said = found.pop()
    assert "got at least one that cannot" in said and "data check NAME --recordings" in said
    assert not any(word in said for word in ("fly", "film 5", "anna", "NaN", "a0"))


def test_a_fault_costs_nobody_anything_and_a_dry_run_says_the_same(tmp_path: Path) -> None:
    ledger = enrolled(tmp_path, rule=FilterName.RENYI, epsilon=20.0)
    before = len(ledger.read_entries())
    said = message_of(lambda: worn(tmp_path / "m.safetensors", NAN, ledger=ledger))
    how = make_method("dp_sgd", epsilon=2.0, unit="subject")
    cost = bills.make_run_cost(how, [how.plan_run(6)], {})
    assert message_of(lambda: bills.quote_cost(ledger, NAN, cost, unit="subject")) == said
    assert len(ledger.read_entries()) == before and not list(tmp_path.glob("m*"))


def test_what_is_public_is_still_named(tmp_path: Path) -> None:
    target = tmp_path / "m.safetensors"
    nan = replace(PUBLIC, odd={"values": np.full((240, 2), np.nan, np.float32)})
    with pytest.raises(BadInput, match="without NaN or infinity; fill or drop"):
        teaches(target, pate(), public=nan)
    with pytest.raises(BadInput, match="person mask"):
        trains(target, Few(has_mask=False), "mask_dp")


def test_the_steward_can_see_which_recording_it_is(tmp_path: Path, command: Any) -> None:
    assert _read_all(Few(strange="fly")).data["faults"] == [
        {"name": "film 5", "fault": "Expected an activity of the list, got 'fly'."}
    ]
    for activity in ("walk", "run"):
        (tmp_path / activity).mkdir()
        frames = maker.moving(4, 32, 32, seed=1)
        maker.make(tmp_path / activity / "a.mkv", frames, maker.KINDS["h264.mkv"])
    (tmp_path / "walk" / "b.mkv").write_bytes(b"no video")
    words = ("data", "check", "folder", "--root", tmp_path)
    assert command(*words).code == 0
    done = command(*words, "--recordings", "--json")
    assert done.code == 4 and done.json["private"] and done.json["recordings"] == 3
    assert [each["name"] for each in done.json["faults"]] == ["walk/b.mkv"]
    shown = command(*words, "--recordings").out
    assert shown.startswith("PRIVATE") and "2 of 3 recordings can be used" in shown
