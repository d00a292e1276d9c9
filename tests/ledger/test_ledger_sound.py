"""A voice has no price: where an account protects whole files or people, sound never leaves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import masquerade as mq
import video_files as maker
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Ledger
from masquerade.ledger.store import Session

POOL = mq.make_mechanism("pooled_gaussian", epsilon=8, delta=1e-4, unit="frame")
FRAME = "--mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit frame --yes".split()


@pytest.fixture
def film(tmp_path: Path) -> Path:
    return maker.make_furnished(tmp_path / "in.mp4", maker.moving(12, 24, 32))


def opened(film: Path, *units: str) -> Ledger:
    """A ledger in which the film is in one account of each unit."""
    ledger = Ledger(film.with_name("budget.db"))
    for unit in units:
        open_account(ledger, unit)
        add(ledger, unit, film)
    return ledger


def open_account(ledger: Ledger, unit: str) -> None:
    sites = 4 if unit in ("pixels", "tube") else None
    ledger.open_account(unit, Unit(name=UnitName(unit), sites=sites), epsilon=1e4, delta=1e-4)


def add(ledger: Ledger, unit: str, film: Path) -> None:
    subject = "ann" if unit in ("subject", "shard") else None
    ledger.add_content(unit, mq.read_video(film).frames, subject=subject, remake=mq.make_mechanism)


def words(film: Path) -> list[Any]:
    ledger = film.with_name("budget.db")
    return ["release", film, film.with_name("out.mp4"), *FRAME, "--ledger", ledger]


def spends(ledger: Ledger) -> list[dict[str, Any]]:
    return [entry.payload for entry in ledger.read_entries() if entry.kind == "reserve"]


@pytest.mark.parametrize("unit", ["video", "record", "subject", "shard"])
def test_sound_is_refused_where_an_account_protects_all_of_a_file(
    unit: str, film: Path, command: Any
) -> None:
    ledger = opened(film, "frame", unit)
    for more in ([], ["--dry-run"]):
        done = command(*words(film), "--keep-audio", *more)
        assert done.code == 2 and f"account {unit} protects" in done.err
    assert spends(ledger) == [] and not film.with_name("out.mp4").exists()
    if unit != "shard":  # which no release has a price for
        assert command(*words(film)).code == 0, "without the sound it may leave"
        assert [spend["with_sound"] for spend in spends(ledger)] == [False]


def test_where_sound_is_not_protected_the_entry_says_that_it_left(film: Path, command: Any) -> None:
    ledger = opened(film, "frame", "tube")
    assert command(*words(film), "--keep-audio").code == 0
    [spend] = spends(ledger)
    assert spend["with_sound"] is True
    history = command("ledger", "history", "--ledger", film.with_name("budget.db")).out
    assert "with sound, which is not protected" in history
    receipt = mq.check_receipt(film.with_name("out.mp4"))
    assert ledger.find_strangers([receipt]) == []
    silent = dataclasses.replace(receipt, kept_sound=False)
    assert ledger.find_strangers([silent]), "the charge was for an output with sound"


@pytest.mark.parametrize("unit", ["video", "subject"])
def test_a_file_whose_sound_has_left_cannot_come_under_a_budget_of_all_of_it(
    unit: str, film: Path
) -> None:
    ledger, frames = opened(film, "frame"), mq.read_video(film).frames
    ledger.reserve_release(frames, POOL)
    open_account(ledger, unit)
    add(ledger, unit, film)  # a silent release is charged, and that is all
    other = frames[:6]
    ledger.add_content("frame", other)
    ledger.reserve_release(other, POOL, with_sound=True)
    with pytest.raises(ValueError, match="whose sound never left"):
        ledger.add_content(unit, other, subject="ben" if unit == "subject" else None)
    ledger.open_account("later", Unit(name=UnitName.TUBE, sites=4), epsilon=1e4, delta=1e-4)
    ledger.add_content("later", other, remake=mq.make_mechanism)


def test_what_an_old_entry_does_not_say_of_sound_is_taken_for_the_worst(
    film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, frames, append = opened(film, "frame"), mq.read_video(film).frames, Session.append_entry

    def old(self: Session, kind: str, payload: dict[str, Any]) -> Any:
        payload.pop("with_sound", None)
        return append(self, kind, payload)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "append_entry", old)
        ledger.reserve_release(frames, POOL)
    open_account(ledger, "video")
    with pytest.raises(ValueError, match="or may have"):
        add(ledger, "video", film)
