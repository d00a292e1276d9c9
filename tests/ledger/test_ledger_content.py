"""One recording is one member, whatever file, data set or version of the ledger it came in by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import video_files as maker
from masquerade.accounting.compose import make_sampled_gaussian
from masquerade.cli.ledger import EnrollData
from masquerade.errors import BadInput, BudgetExceeded
from masquerade.guarantee import Relation, Unit, UnitName
from masquerade.io.video import read
from masquerade.ledger import Content, Ledger
from masquerade.ledger.filter import FilterName
from masquerade.ledger.runs import Run
from masquerade.mechanism import Value
from masquerade.publish.models import make_method, train_file
from masquerade.publish.recording import make_mechanism, release_file, release_value
from masquerade.publish.sources import probe_recording
from masquerade.recordings import Photo, Signal, Video

HALF = make_mechanism("gaussian_noise", epsilon=3.5, delta=1e-5, unit="value", low=-9, high=9)
TABLE = arrays.arrays(
    np.float64, st.tuples(st.integers(2, 6), st.integers(1, 3)), elements=st.floats(-9, 9)
)


def in_files(folder: Path, value: np.ndarray) -> Iterator[Content]:
    """A table as every file that can hold it."""
    np.save(folder / "a.npy", value)
    np.savez(folder / "a.npz", value)
    np.savetxt(folder / "a.csv", value, delimiter=",", fmt="%.17g")
    for name in ("a.npy", "a.npz", "a.csv"):
        yield probe_recording(folder / name).content


def prints(contents: Iterator[Content] | list[Content]) -> set[bytes]:
    return {content.fingerprint for content in contents}


@settings(max_examples=25)
@given(TABLE)
def test_a_signal_is_one_in_memory_in_every_file_and_in_every_type_of_number(
    tmp_path_factory: pytest.TempPathFactory, value: np.ndarray
) -> None:
    folder, rounded = tmp_path_factory.mktemp("a"), value.astype(np.float32)
    ways: list[Value] = [value, rounded, rounded.astype(">f8"), np.asfortranarray(value)]
    ways += [(value,), value[None], Signal(values=rounded, rate_hz=20)]
    found = prints(
        [*map(Content.from_value, ways), *in_files(folder, value), *in_files(folder, rounded)]
    )
    assert len(found) == 1
    other = value.copy()
    other[0, 0] += 0.01
    assert Content.from_value(other).fingerprint not in found


@pytest.mark.parametrize("kind", [bool, "u1", "i2", ">i4", "i8", "f2", "f4", "f8"])
def test_whole_numbers_are_the_same_in_every_type(kind: Any) -> None:
    value = np.array([[0, 1, 1], [1, 0, 1]])
    assert len(prints([Content.from_value(value), Content.from_value(value.astype(kind))])) == 1
    assert (
        Content.from_value(-0.0 * value).fingerprint == Content.from_value(0.0 * value).fingerprint
    )
    nans = [np.copysign(np.nan, sign) * np.ones((2, 2)) for sign in (1, -1)]
    assert len(prints([Content.from_value(each) for each in nans])) == 1


def test_a_film_is_one_as_a_file_in_memory_and_frame_by_frame(tmp_path: Path) -> None:
    frames = maker.moving(5, 24, 32)
    path = maker.make(tmp_path / "a.mkv", frames, maker.KINDS["ffv1.mkv"])
    decoded = np.stack(list(read.read_frames(path)))
    np.save(tmp_path / "a.npy", decoded.astype(np.float64))
    ways = [
        probe_recording(path),
        probe_recording(path, is_charged=True),
        probe_recording(tmp_path / "a.npy"),
    ]
    inside: list[Value] = [decoded, decoded.astype(np.float32), Video(frames=decoded, rate_hz=25)]
    assert len(prints([*(each.content for each in ways), *map(Content.from_value, inside)])) == 1


def test_a_photo_is_one_as_a_picture_a_film_of_one_frame_and_in_a_data_set(tmp_path: Path) -> None:
    image = maker.moving(1, 24, 32)[0]
    kind = maker.Kind(suffix=".png", codec="png", pixel_format="rgb24")
    path = maker.make(tmp_path / "a.png", image[None], kind)
    box = (3.0, 3.0, 9.0, 9.0)
    values: list[Value] = [image, image[None], Photo(image=image), Photo(image=image, box=box)]
    assert (
        len(
            prints(
                [probe_recording(path, is_charged=True).content, *map(Content.from_value, values)]
            )
        )
        == 1
    )
    looks = {
        probe_recording(path, is_charged=True).content.look,
        *(Content.from_value(v).look for v in values),
    }
    assert len(looks) == 1 and b"" not in looks


def opened(path: Path, **other: Any) -> Ledger:
    ledger = Ledger(path / "b.db")
    given: dict[str, Any] = {"unit": Unit(name=UnitName.VALUE), "epsilon": 4.0, "delta": 1e-5}
    ledger.open_account("ward", **(given | other))
    return ledger


def spends(ledger: Ledger) -> list[str]:
    """Who paid for each reservation."""
    found = [entry for entry in ledger.read_entries() if entry.kind == "reserve"]
    return [charge["holder"] for entry in found for charge in entry.payload["charges"]]


def test_what_was_enrolled_in_one_type_and_added_in_another_has_one_budget(tmp_path: Path) -> None:
    value = np.random.default_rng(0).uniform(-9, 9, (50, 3))
    np.save(tmp_path / "a.npy", value)
    signal = Signal(values=value.astype(np.float32), rate_hz=20)
    ledger = opened(tmp_path)
    members = ledger.add_contents("ward", [(Content.from_value(signal), None)])
    members += ledger.add_contents("ward", [(probe_recording(tmp_path / "a.npy").content, None)])
    assert len(set(members)) == 1
    release_value(signal, HALF, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        release_file(tmp_path / "a.npy", tmp_path / "b.npy", HALF, ledger=ledger)
    assert ledger.count_members([Content.from_value(value[None])]) == 1
    assert spends(ledger) == members[:1]


@pytest.mark.parametrize("shape", [(8, 2, 3), (50,), (5, 3)])
@pytest.mark.parametrize("scale", [1.0, 1.1])
def test_what_came_in_as_one_frame_pays_as_one_however_it_is_released(
    tmp_path: Path, shape: tuple[int, ...], scale: float
) -> None:
    value = scale * np.arange(np.prod(shape), dtype=float).reshape(shape)
    ledger = opened(tmp_path, unit=Unit(name=UnitName.FRAME), epsilon=400.0)
    ledger.add_content("ward", value[None])
    frame = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame", low=0, high=99)
    entries = [ledger.reserve_release(each, frame) for each in (value[None], value)]
    first, second = (entry.payload["charges"][0]["cost"] for entry in entries)
    assert first == second


def test_photos_are_enrolled_trained_on_and_known_when_they_are_tested_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from few_photos import FewPhotos
    from masquerade.networks.network import TinyVitSmall

    unit = Unit(name=UnitName.RECORD)
    ledger = opened(tmp_path, unit=unit, epsilon=20.0, rule=FilterName.RENYI)
    done = EnrollData(account="ward", ledger=ledger.address).run(FewPhotos())
    assert done.data["members"] == 8
    method = make_method("dp_sgd", epsilon=8.0, unit="record", batch=4, epochs=1.0)
    train_file(FewPhotos(), tmp_path / "m.safetensors", method, TinyVitSmall(), ledger=ledger)
    assert len(set(spends(ledger))) == 8
    assert ledger.count_members(map(Content.from_value, FewPhotos())) == 8


def written_before(ledger: Ledger, content: Content, former: bytes) -> None:
    """Write a content's row as an earlier version did, or would have another form of it."""
    with ledger._open_desk() as desk:
        (row,) = desk._read_rows(content)
        desk._write_row(row, content=desk.session.mac("content", former.hex()))


def test_a_recording_of_an_earlier_version_is_linked_when_it_is_seen_again(tmp_path: Path) -> None:
    value = np.random.default_rng(0).uniform(-9, 9, (50, 3))
    content, ledger = Content.from_value(value), opened(tmp_path)
    ledger.add_content("ward", value)
    first = release_value(value, HALF, ledger=ledger).receipt
    written_before(ledger, content, content.former[0])
    assert ledger.list_summaries()[0]["unlinked"] == ledger.count_unlinked("ward") == 1
    assert ledger.count_members([content]) == 1 and ledger.has_spend_for(first, value)
    assert ledger.count_unlinked("ward") == 0 and ledger.verify_entries().entries == 4
    with pytest.raises(BudgetExceeded):
        ledger.reserve_release(value.astype(np.float32), HALF)


@pytest.mark.parametrize("shape", [(50, 1), (1, 50), (50,)])
def test_a_column_of_an_earlier_version_is_linked_as_a_list_and_the_other_way_round(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    value = np.random.default_rng(0).uniform(-9, 9, shape)
    ledger = opened(tmp_path)
    ledger.add_content("ward", value)
    before = hashlib.sha256(repr(shape).encode() + value.astype("<f8").tobytes()).digest()
    written_before(ledger, Content.from_value(value), before)
    for other in (value.squeeze(), value.reshape(1, 50), value.reshape(50, 1)):
        assert ledger.count_members([Content.from_value(other)]) == 1


def twice_before(folder: Path, epsilon: float) -> tuple[Ledger, np.ndarray]:
    """A ledger in which one recording is two members, each of which has paid."""
    value = np.random.default_rng(0).uniform(-9, 9, (50, 3))
    ledger, content = opened(folder, epsilon=epsilon), Content.from_value(value)
    for number, former in enumerate((content.former[0], content.former[-1])):
        ledger.add_content("ward", value + number)
        ledger.reserve_release(value + number, HALF)
        written_before(ledger, Content.from_value(value + number), former)
    return ledger, value


def test_one_recording_that_was_two_members_pays_for_nothing_until_it_is_one(
    tmp_path: Path,
) -> None:
    ledger, value = twice_before(tmp_path, epsilon=4.0)
    with pytest.raises(BadInput, match="got two, which an earlier version"):
        ledger.reserve_release(value, HALF)
    with pytest.raises(BudgetExceeded, match="ward"):  # both together went beyond the cap
        ledger.add_content("ward", value, remake=make_mechanism)
    assert len(ledger.read_entries()) == 5 and ledger.verify_entries()


EVENT = make_sampled_gaussian(8.0, sampling_prob=0.5, steps=4)


def run_of(*values: np.ndarray, **fields: Any) -> Run:
    return Run(
        run_id="r",
        method="dp_sgd",
        fields=fields,
        events=dict.fromkeys((Relation.ZERO_OUT, Relation.REPLACE_ONE), EVENT),
        contents=tuple(map(Content.from_value, values)),
        units=tuple(range(len(values))),
    )


def test_a_run_that_an_earlier_version_began_is_taken_up_by_one_that_names_more(
    tmp_path: Path,
) -> None:
    value = np.random.default_rng(0).uniform(-9, 9, (50, 3))
    ledger = opened(tmp_path, rule=FilterName.RENYI, epsilon=30.0)
    ledger.add_content("ward", value)
    entry = ledger.reserve_run(run_of(value))
    more = {"first_weights": {"origin": "shipped"}, "class_source": "read"}
    assert ledger.reserve_run(run_of(value, **more)).sequence == entry.sequence
    with pytest.raises(BadInput, match="got other recordings or settings"):
        ledger.reserve_run(run_of(value, batch=4))


def test_a_recording_is_no_frame_after_it_was_released_as_many(tmp_path: Path) -> None:
    value = np.random.default_rng(0).uniform(-9, 9, (50, 3))
    ledger = opened(tmp_path)
    ledger.add_content("ward", value)
    ledger.reserve_release(value, HALF)
    with pytest.raises(ValueError, match="add it without the first axis"):
        ledger.add_content("ward", value[None])


def test_two_members_become_one_that_has_paid_for_both(tmp_path: Path) -> None:
    ledger, value = twice_before(tmp_path, epsilon=6.0)
    member = ledger.add_content("ward", value, remake=make_mechanism)
    book, entries = ledger.read_book(), ledger.read_entries()
    assert book.list_accounts_of(member) == {"ward": [member]}
    paid = [int(each.payload["charges"][0]["cost"]) for each in entries if each.kind == "reserve"]
    assert book.cost_by_payer["ward", member] == sum(paid) and len(paid) == 2
    assert ledger.verify_entries().entries == len(entries) and ledger.count_unlinked("ward") == 0
    assert ledger.add_content("ward", value.astype(np.float32)) == member
    assert ledger.read_book().cost_by_payer["ward", member] == sum(paid), "nothing is owed twice"
    with pytest.raises(BudgetExceeded):
        ledger.reserve_release(value, HALF)
