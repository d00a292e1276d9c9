"""Copies of a film are noticed when they are added; the look never leaves the ledger."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import test_ledger

import video_files as maker
from masquerade import make_mechanism
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.guarantee import Unit, UnitName
from masquerade.ledger import Content, Ledger
from masquerade.ledger.content import find_alike
from masquerade.ledger.damage import LedgerTampered
from masquerade.ledger.desk import OpenLedger
from video_files import Kind

address = test_ledger.address
FRAME, SUBJECT = Unit(name=UnitName.FRAME), Unit(name=UnitName.SUBJECT)
POOL = make_mechanism("pooled_gaussian", epsilon=1, delta=1e-5, unit="frame")
LOW = Kind(options={"crf": "38", "preset": "fast"})


def film(seed: int, frames: int = 24) -> np.ndarray:
    """A room of its own with somebody who walks through it; (T, 72, 96, 3)."""
    rng = np.random.default_rng(seed)
    room = rng.integers(20, 236, (6, 8, 3)).repeat(12, 0).repeat(12, 1)
    out = np.repeat(room[None], frames, 0).astype(np.uint8)
    for t in range(frames):
        out[t, 20:60, 4 + 3 * t : 16 + 3 * t] = rng.integers(0, 255, 3)
    return out


def resized(frames: np.ndarray, height: int, width: int) -> np.ndarray:
    pictures = (av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames)
    return np.stack([p.reformat(width=width, height=height).to_ndarray() for p in pictures])


COPIES = {
    "lower quality": lambda frames: frames,
    "the middle third": lambda frames: frames[len(frames) // 3 : 2 * len(frames) // 3],
    "mirrored": lambda frames: np.ascontiguousarray(frames[:, :, ::-1]),
    "another size": lambda frames: resized(frames, 64, 128),
    "longer": lambda frames: np.concatenate([frames, film(77)[:20]]),
}


def look(frames: np.ndarray) -> bytes:
    return Content.from_frames(frames.shape, frames).look


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Ledger(tmp_path / "budget.db").open_account("ward", FRAME, epsilon=80, delta=1e-5)
    return tmp_path


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_a_member_is_added_with_a_warning(copy: str, folder: Path, command: Any) -> None:
    first = maker.make(folder / "first.mp4", film(1), maker.KINDS["h264.mp4"])
    other = maker.make(folder / "other.mp4", film(2), LOW)
    second = maker.make(folder / "second.mp4", COPIES[copy](film(1)), LOW)
    add = ["ledger", "add", "ward", "--ledger", folder / "budget.db", "--json"]
    done = command(*add, first, other).json
    assert done["warnings"] == []
    [warning] = command(*add, second).json["warnings"]
    assert f"second.mp4 looks like member {done['members'][0]} (entry 2" in warning
    assert "--same-as" in warning and done["members"][1] not in warning
    assert command(*add, second).json["warnings"] == [], "it is known now"
    united = command(*add, second, "--same-as", first).json
    assert united["members"] == [done["members"][0]] and united["warnings"] == []


def test_copies_that_come_together_are_noticed_and_a_word_beforehand_is_enough(
    folder: Path, command: Any
) -> None:
    add = ["ledger", "add", "ward", "--ledger", folder / "budget.db"]
    first = maker.make(folder / "first.mp4", film(1), maker.KINDS["h264.mp4"])
    second = maker.make(folder / "second.mp4", film(1), LOW)
    assert command(*add, first, first, "--json").json["warnings"] == [], "equal files are one"
    again = maker.make(folder / "again.mp4", film(5), maker.KINDS["h264.mp4"])
    worse = maker.make(folder / "worse.mp4", film(5), LOW)
    done = command(*add, again, worse, "--json").json
    assert [warning.split(" (")[0] for warning in done["warnings"]] == [
        f"{worse} looks like {again}: if it shows the same footage, add it again with --same-as "
        "and that file, before anything is released of it. This is a guess."
    ]
    assert "second.mp4 looks like member" in command(*add, second).out
    third = maker.make(folder / "third.mp4", film(1)[3:], LOW)
    assert command(*add, third, "--same-as", first, "--json").json["warnings"] == []


@pytest.mark.slow
def test_people_and_places_of_the_stage_are_told_apart(in_world: Path) -> None:
    films = [Stage(kind="videos", split="train", videos=36)[place].frames for place in range(3)]
    found = [look(frames) for frames in films]
    for place, frames in enumerate(films):
        others = found[:place] + found[place + 1 :]
        assert find_alike(found[place], others) == []
        assert find_alike(look(frames[5:11, :, ::-1]), found) == [place]
        assert find_alike(look(resized(frames, 48, 96)), found) == [place]


def test_a_long_film_is_looked_at_now_and_then() -> None:
    frames = np.broadcast_to(film(3)[:1], (5000, 72, 96, 3))
    assert 200 < len(look(frames)) // 16 <= 256
    assert look(np.zeros((30, 72, 96, 3), np.uint8)) == b"" == look(frames[:4, :6, :6])
    assert Content.from_value(film(3)).look == look(film(3))
    assert Content.from_value(film(3) / 2).look == b"" == Content.from_value(np.ones((4, 3))).look
    assert find_alike(b"", [look(film(3))]) == find_alike(look(film(3)), [b""]) == []


def test_a_look_is_sealed_and_never_leaves(address: str, tmp_path: Path) -> None:
    ledger = Ledger(address)
    ledger.open_account("ward", FRAME, epsilon=80, delta=1e-5)
    ledger.add_content("ward", film(1))
    ledger.reserve_release(film(1), POOL)
    with ledger._store.open_ledger_session() as session:
        [row] = session.connection.exec_driver_sql("SELECT * FROM looks").all()
        assert list(OpenLedger(session).footage_hashes().values()) == [look(film(1))]
    assert look(film(1)).hex()[:32] not in row.sealed
    chain = json.dumps([entry.payload for entry in ledger.read_entries()])
    assert row.sealed[:32] not in chain and look(film(1)).hex()[:32] not in chain
    with ledger._store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE looks SET sealed = '00'")
    with pytest.raises(LedgerTampered, match="look was changed"):
        ledger.find_doubts("ward", [], [("new", Content.from_value(film(2)))])


def test_an_older_ledger_gets_its_looks_when_they_come(folder: Path) -> None:
    ledger = Ledger(folder / "budget.db")
    with sqlite3.connect(folder / "budget.db") as connection:
        connection.execute("DROP TABLE looks")
    connection.close()
    assert ledger.find_doubts("ward", [], [("new", Content.from_value(film(1)))]) == []
    ledger.add_content("ward", film(1))
    assert len(ledger.find_doubts("ward", [], [("new", Content.from_value(film(1)[2:]))])) == 1


def test_what_is_said_to_be_the_same_later_is_charged_as_one(address: str) -> None:
    ledger = Ledger(address)
    ledger.open_account("ward", FRAME, epsilon=80, delta=1e-5)
    ledger.open_account("people", SUBJECT, epsilon=800, delta=1e-5)
    first, second, third = film(1), film(1)[2:], film(1)[4:]
    member = ledger.add_content("ward", first)
    ledger.reserve_release(first, POOL)
    ledger.add_content("ward", second)
    ledger.add_content("people", second, subject="Ann")
    ledger.add_content("ward", third, same_as=second)
    assert ledger.add_content("ward", second, same_as=first, remake=make_mechanism) == member
    book = ledger.read_book()
    assert set(book.holders) == {("ward", member), ("people", member)}
    assert book.holders["people", member] == ["ann"]
    assert book.cost_by_payer["people", "ann"] > 0, "what was released of the footage before"
    for value in (first, second, third):
        ledger.reserve_release(value, POOL)
        charges = ledger.read_entries()[-1].payload["charges"]
        assert [(c["account"], c["holder"]) for c in charges] == [
            ("ward", member),
            ("people", "Ann"),
        ]


def test_a_tie_that_was_changed_cannot_be_put_back(folder: Path) -> None:
    ledger = Ledger(folder / "budget.db")
    ledger.add_content("ward", film(1))
    ledger.add_content("ward", film(1)[2:])
    with sqlite3.connect(folder / "budget.db") as connection:
        rows = connection.execute("SELECT token, member, mac FROM contents").fetchall()
    ledger.add_content("ward", film(1)[2:], same_as=film(1))
    with sqlite3.connect(folder / "budget.db") as connection:
        for token, member, mac in rows:
            change = "UPDATE contents SET member = ?, mac = ? WHERE token = ?"
            connection.execute(change, (member, mac, token))
    connection.close()
    with pytest.raises(BadInput, match="fingerprint was changed"):
        ledger.reserve_release(film(1)[2:], POOL)
