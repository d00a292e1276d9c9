"""Releasing a video as a user does it, and everything that can go wrong on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import masquerade as mq
import video_files as maker
from conftest import python
from masquerade import catalog
from masquerade.errors import BadInput
from masquerade.events import event_to_json
from masquerade.guarantee import Unit, UnitName
from masquerade.io import devices
from masquerade.io.video import read, write
from masquerade.ledger import Content, Ledger
from masquerade.mechanism import Mechanism
from video_files import KINDS, RATE, Kind

FILM = maker.moving(10, 24, 32)
POOLED = "--mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit pixels --pixels 4".split()
PNG = Kind(suffix=".png", codec="png", pixel_format="rgb24")
MORE = {
    "turned.mp4": Kind(rotation=90),
    "turned.mkv": Kind(suffix=".mkv", rotation=180),
    "uneven.mkv": Kind(suffix=".mkv", pts=[0, 20, 100, 120, 200, 220, 300, 320, 400, 450]),
    "wide.mp4": Kind(aspect=Fraction(4, 3)),
    "turned-wide.mov": Kind(suffix=".mov", aspect=Fraction(4, 3), rotation=270),
    "slow.avi": Kind(suffix=".avi", codec="mpeg4", rate=Fraction(30000, 1001)),
    "picture.png": PNG,
    "picture.jpg": Kind(suffix=".jpg", codec="mjpeg", pixel_format="yuvj444p"),
}
EXAMPLES = [catalog.make_example("mechanisms", name) for name in catalog.list_entries("mechanisms")]
GAUSSIAN = ("pooled_gaussian", "cosine_gaussian", "video_dprp")
POOL = mq.make_mechanism("pooled_gaussian", epsilon=8, delta=1e-4, unit="pixels", pixels=4)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return maker.make(tmp_path / "in.mp4", FILM, KINDS["h264.mp4"])


@pytest.fixture
def sounding(tmp_path: Path) -> Path:
    return maker.make_furnished(tmp_path / "in.mp4", maker.moving(12, 24, 32))


def open_account(command: Any, folder: Path, *files: Path, unit: str = "pixels") -> Path:
    """A ledger with one account, unit 4 pixels or another, that holds these files."""
    ledger = folder / "budget.db"
    words = ["ward", "--ledger", ledger, "--epsilon", 20, "--delta", 1e-4, "--unit", unit]
    assert command("ledger", "open", *words, *(["--pixels", 4] * (unit == "pixels"))).code == 0
    assert command("ledger", "add", "ward", *files, "--ledger", ledger).code == 0
    return ledger


def kinds(ledger: Path) -> list[str]:
    return [entry.kind for entry in Ledger(ledger).read_entries()]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"budget.db", "budget.db.witness"}


def flags(mechanism: Mechanism) -> list[Any]:
    given = {name: value for name, value in mechanism.encode_fields().items() if value is not None}
    words = [
        word
        for name, value in given.items()
        if value is not False  # a switch that is not set
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    return ["--mechanism", mechanism.name, *words]


@pytest.mark.parametrize("name", KINDS | MORE)
def test_every_kind_of_file_becomes_an_mp4(name: str, tmp_path: Path, command: Any) -> None:
    kind, target = (KINDS | MORE)[name], tmp_path / "out.mp4"
    film = FILM[:1] if name.startswith("picture") else FILM
    source = maker.make(tmp_path / name, film, kind)
    assert command("release", source, target, *POOLED).code == 0
    found, quarter = mq.probe_file(target), kind.rotation in (90, 270)
    assert found.shape == (len(film), *((32, 24) if quarter else (24, 32)), 3)
    assert found.rate == (Fraction(20) if kind.pts else kind.rate)
    assert found.aspect == (kind.aspect or Fraction(1)) ** (-1 if quarter else 1)
    assert found.rotation == 0 and bool(kind.pts) == found.is_variable_rate == bool(found.warnings)
    assert command("receipt", "check", target).code == 0
    ends = ("", ".receipt.json", ".receipt.json.sig")
    assert names(tmp_path) == {name, *(f"out.mp4{end}" for end in ends)}


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".webm"])
@pytest.mark.parametrize("source", [".mp4", ".mkv"])
def test_nothing_else_gets_out(source: str, suffix: str, tmp_path: Path, command: Any) -> None:
    (tmp_path / "Kitchen").mkdir()
    private = tmp_path / "Kitchen" / f"CANARY of Ada{source}"
    maker.make_furnished(private, maker.moving(12, 24, 32))
    assert maker.SECRETS[0].encode() in private.read_bytes()
    video, target = mq.read_video(private), tmp_path / f"out{suffix}"
    assert command("release", private, target, *POOLED).code == 0
    found = mq.probe_file(target)
    assert found.other_streams == () and found.chapters == 0
    receipt = target.with_name(f"out{suffix}.receipt.json").read_text()
    digests = [
        hashlib.sha256(data).hexdigest() for data in (private.read_bytes(), video.frames.tobytes())
    ]
    digests.append(Content.from_value(video).fingerprint.hex())
    for word in ("CANARY", "of Ada", str(tmp_path), *maker.SECRETS, maker.SPOKEN, *digests):
        assert word not in receipt and word.encode() not in target.read_bytes()
        assert word not in " ".join(found.metadata.values())


@pytest.mark.parametrize("suffix", [".mkv", ".mp4", ".avi", ".png"])
@pytest.mark.parametrize("name", ["pooled_gaussian", "cosine_gaussian", "video_dprp", "blur"])
def test_an_exact_file_holds_what_the_mechanism_gives(
    name: str, suffix: str, tmp_path: Path, command: Any, same_bits: Callable[[], mq.Noise]
) -> None:
    kind, film = (PNG, FILM[:1]) if suffix == ".png" else (KINDS["h264.mkv"], FILM)
    source = maker.make(tmp_path / f"in{kind.suffix}", film, kind)
    mechanism = catalog.make_example("mechanisms", name)
    target = tmp_path / f"out{suffix}"
    assert command("release", source, target, *flags(mechanism), "--exact", "--yes").code == 0
    expected = mechanism.apply(mq.read_video(source), same_bits())
    got = mq.read_video(target)
    assert np.array_equal(got.frames, expected.frames) and got.rate_hz == expected.rate_hz
    assert not np.array_equal(got.frames, mq.read_video(source).frames)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda mechanism: mechanism.name)
def test_a_picture_is_one_frame(mechanism: Mechanism, tmp_path: Path, command: Any) -> None:
    source = maker.make(tmp_path / "in.png", maker.moving(1, 72, 96), PNG)
    for name in ("out.png", "other.jpg"):
        done = command("release", source, tmp_path / name, *flags(mechanism), "--yes")
        assert done.code == 0, done.err
        assert mq.read_video(tmp_path / name).frames.shape == (1, 72, 96, 3)
        assert command("receipt", "check", tmp_path / name).code == 0


def cut(share: float, kind: Kind = KINDS["h264.mp4"]) -> Callable[[Path], object]:
    def prepare(path: Path) -> None:
        whole = maker.make(path, FILM[:1] if kind is PNG else FILM, kind).read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])

    return prepare


BAD: dict[str, tuple[str, Callable[[Path], object]]] = {
    "cut-1.mp4": ("copy it again", cut(0.1)),
    "cut-5.mp4": ("copy it again", cut(0.5)),
    "cut-9.mp4": ("copy it again", cut(0.95)),
    "cut.mkv": ("copy it again", cut(0.5, KINDS["h264.mkv"])),
    "cut.avi": ("copy it again", cut(0.5, KINDS["mjpeg.avi"])),
    "half.png": ("copy it again", cut(0.5, PNG)),
    "frameless.mp4": ("", lambda path: maker.make_raw(path, [], Kind())),
    "empty.mp4": ("empty file", lambda path: path.touch()),
    "words.mp4": ("convert it", lambda path: path.write_text("Dear diary, " * 50)),
    "missing.mp4": ("got nothing", lambda path: None),
    "folder.mp4": ("it is empty", lambda path: path.mkdir()),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_leaves_nothing(name: str, tmp_path: Path, command: Any) -> None:
    remedy, prepare = BAD[name]
    prepare(tmp_path / name)
    before, target = names(tmp_path), tmp_path / ("out" if name == "folder.mp4" else "out.mp4")
    done = command("release", tmp_path / name, target, *POOLED)
    assert done.code == 4 and done.out == ""
    assert done.err.startswith("masquerade: Expected ") and name in done.err and remedy in done.err
    assert "Traceback" not in done.err and names(tmp_path) == before
    told = command("release", tmp_path / name, target, *POOLED, "--json").err
    assert json.loads(told)["exit_code"] == 4


WRONG = [
    ("out.xyz", POOLED, "choose one of .avi"),
    ("out.npy", POOLED, "Expected a video to become a video"),
    ("out.png", POOLED, "Expected one frame for a .png, got 12; write a video such as .mp4"),
    ("out.webm", [*POOLED, "--exact"], "choose from .mp4, .m4v, .mov, .mkv, .avi, .png"),
    ("out.mp4", POOLED[:6], "one whole frame of a video"),
    ("out.mp4", [*POOLED[:6], "--unit", "video", "--keep-audio"], "sound to be dropped"),
    ("out.mp4", [*POOLED, "--keep-names"], "--jobs with several files, got one"),
    ("out.mp4", [*POOLED, "--suffix", ".mkv"], "--jobs with several files, got one"),
    ("out.mp4", [*POOLED, "--device", "cuda"], "on a machine without; leave out --device"),
    ("out.mp4", [*POOLED, "--device", "tpu"], "Expected cpu or cuda"),
    ("in.mp4", [*POOLED, "--overwrite"], "another name for the output than the input"),
    ("nowhere/out.mp4", POOLED, "make it first"),
]


@pytest.mark.parametrize(("target", "words", "message"), WRONG)
def test_wrong_use_exits_with_two(
    target: str, words: list[str], message: str, sounding: Path, command: Any, monkeypatch: Any
) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr(devices, "torch", torch)
    done = command("release", sounding, sounding.parent / target, *words)
    said = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and message in said and done.out == ""
    if words == POOLED[:6]:
        assert all(f" {unit.value} " in said for unit in UnitName if unit is not UnitName.SHARD)
    assert names(sounding.parent) == {"in.mp4"}


@pytest.mark.parametrize(
    "words", [["out.mkv", "--exact"], ["out.webm"], ["b.webm", "--keep-audio"]]
)
def test_what_a_format_cannot_hold_costs_nothing(
    words: list[str], sounding: Path, command: Any
) -> None:
    wide = maker.make(sounding.with_name("wide.mp4"), FILM, MORE["wide.mp4"])
    source = sounding if "--keep-audio" in words else wide
    ledger = open_account(command, wide.parent, source)
    target = wide.with_name(words[0])
    done = command("release", source, target, *POOLED, *words[1:], "--ledger", ledger)
    assert done.code == 2 and kinds(ledger) == ["open", "add"]


def test_a_heuristic_promises_nothing_and_no_ledger_takes_it(clip: Path, command: Any) -> None:
    target = clip.with_name("out.mp4")
    done = command("release", clip, target, "--mechanism", "blur")
    assert done.code == 0 and "No guarantee: this is a heuristic" in done.out
    receipt = mq.check_receipt(target)
    assert (
        receipt.guarantee.kind is mq.GuaranteeKind.HEURISTIC and receipt.guarantee.epsilon is None
    )
    ledger = open_account(command, clip.parent, clip)
    words = ["release", clip, clip.with_name("b.mp4"), "--mechanism", "blur", "--ledger", ledger]
    refused = command(*words)
    assert refused.code == 2 and "states its cost" in refused.err
    assert command(*words, "--dry-run").code == 2
    assert kinds(ledger) == ["open", "add"] and not clip.with_name("b.mp4").exists()


def test_sound_is_kept_on_request_and_the_receipt_says_so(sounding: Path, command: Any) -> None:
    target = sounding.with_name("out.mp4")
    done = command("release", sounding, target, *POOLED, "--keep-audio")
    assert done.code == 0 and "voices, words and noises are audible" in done.out
    assert mq.probe_file(target).other_streams == ("audio aac",)
    assert command("receipt", "check", target).code == 0
    beside = target.with_name("out.mp4.receipt.json")
    edited = json.loads(beside.read_text())
    assert edited["kept_sound"] is True
    beside.write_text(json.dumps(edited | {"kept_sound": False}))
    beside.with_name(f"{beside.name}.sig").unlink()
    checked = command("receipt", "check", target)
    assert checked.code == 4 and "states another one" in checked.err
    silent = maker.make(sounding.with_name("silent.mp4"), FILM, KINDS["h264.mp4"])
    done = command("release", silent, sounding.with_name("b.mp4"), *POOLED, "--keep-audio")
    assert done.code == 4 and "silent.mp4" in done.err


@pytest.mark.parametrize(("first", "second"), [(["--keep-audio"], []), ([], ["--keep-audio"])])
def test_an_output_with_other_sound_is_not_taken_for_this_release(
    first: list[str], second: list[str], sounding: Path, command: Any
) -> None:
    words = ["release", sounding, sounding.with_name("out.mp4"), *POOLED]
    assert command(*words, *first).code == 0
    assert command(*words, *second, "--resume").code == 2


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda mechanism: mechanism.name)
def test_a_dry_run_writes_nothing(mechanism: Mechanism, tmp_path: Path, command: Any) -> None:
    source = maker.make(tmp_path / "in.mp4", maker.moving(8, 72, 96), KINDS["h264.mp4"])
    words = ["release", source, tmp_path / "out.mp4", *flags(mechanism), "--dry-run"]
    said = command(*words, "--person-height", 50).out
    assert "Nothing was written." in said and "Expected time: about" in said
    assert "covers about 450 sites of a frame" in said and "3600 if seen in all 8 frames" in said
    data = command(*words, "--json").json
    is_noisy = data["guarantee"]["kind"] != "heuristic"
    assert ("Expect a number to be off by" in said) == is_noisy
    assert (data["expected_error"] is not None) == is_noisy and data["expected_seconds"] > 0
    assert names(tmp_path) == {"in.mp4"}


def test_a_rehearsal_repeats_itself_and_its_name_says_so(clip: Path, command: Any) -> None:
    target, rehearsal = clip.with_name("out.mp4"), clip.with_name("out.rehearsal.mp4")
    words = ["release", clip, target, *POOLED, "--rehearsal-seed"]
    done = command(*words, 7, "--json")
    assert done.json["output"] == str(rehearsal) and done.json["guarantee"]["epsilon"] is None
    first = rehearsal.read_bytes()
    assert command(*words, 7, "--overwrite").code == 0 and rehearsal.read_bytes() == first
    assert command(*words, 8, "--overwrite").code == 0 and rehearsal.read_bytes() != first
    assert command("receipt", "check", rehearsal).code == 0 and not target.exists()
    ledger = open_account(command, clip.parent, clip)
    assert command(*words, 7, "--ledger", ledger).code == 2 and "reserve" not in kinds(ledger)


def test_a_standing_output_is_kept_replaced_or_refused(clip: Path, command: Any) -> None:
    target = clip.with_name("out.mp4")
    words = ["release", clip, target, *POOLED]
    told = command(*words, "--json").json
    assert told["output"] == str(target) and told["already_done"] is False
    assert told["guarantee"]["epsilon"] == 8.0 and told["receipt"].endswith("mp4.receipt.json")
    first = target.read_bytes()
    refused = command(*words)
    assert refused.code == 2 and "--resume to keep it" in refused.err
    kept = command(*words, "--resume")
    assert kept.code == 0 and "stood there already" in kept.out and target.read_bytes() == first
    assert command(*words, "--overwrite").code == 0 and target.read_bytes() != first
    other = [word.replace("8", "7") for word in POOLED]
    assert command("release", clip, target, *other, "--resume").code == 2
    assert command("receipt", "check", target).code == 0


def test_a_second_run_under_a_ledger_spends_nothing(clip: Path, command: Any) -> None:
    ledger = open_account(command, clip.parent, clip)
    words = ["release", clip, clip.with_name("out.mp4"), *POOLED, "--ledger", ledger]
    assert command(*words).code == 0 and kinds(ledger) == ["open", "add", "reserve", "settle"]
    first = clip.with_name("out.mp4").read_bytes()
    again = command(*words)
    assert again.code == 0 and "nothing was spent" in again.out
    assert clip.with_name("out.mp4").read_bytes() == first and kinds(ledger)[4:] == []
    words[2] = clip.with_name("b.mp4")
    assert command(*words).code == 0 and kinds(ledger)[4:] == ["reserve", "settle"]


def test_the_same_frames_in_another_format_are_the_same_member(clip: Path, command: Any) -> None:
    ledger = open_account(command, clip.parent, clip)
    copy, video = clip.with_name("copy.mkv"), mq.read_video(clip)
    with copy.open("wb") as stream:
        write.write_video(stream, video.frames, suffix=".mkv", rate=RATE, exact=True)
    for number, source in enumerate((clip, copy)):
        words = ["release", source, clip.with_name(f"{number}.mp4"), *POOLED]
        assert command(*words, "--ledger", ledger).code == 0
    spends = [entry for entry in Ledger(ledger).read_entries() if entry.kind == "reserve"]
    assert len(spends) == 2 and len({entry.payload["member"] for entry in spends}) == 1
    stranger = maker.make(clip.with_name("other.mp4"), FILM[::-1], KINDS["h264.mp4"])
    refused = command("release", stranger, clip.with_name("b.mp4"), *POOLED, "--ledger", ledger)
    assert refused.code == 4 and "ledger add" in refused.err


def test_an_account_is_charged_what_its_own_unit_feels(clip: Path, command: Any) -> None:
    ledger = open_account(command, clip.parent, clip, unit="frame")
    mechanism = replace(POOL, epsilon=0.02)
    words = ["release", clip, clip.with_name("out.mp4"), *flags(mechanism), "--ledger", ledger]
    assert command(*words, "--yes").code == 0
    charged = Ledger(ledger).read_entries()[2].payload["charges"][0]["event"]
    felt = mechanism.event_for(FILM.shape, Unit(name=UnitName.FRAME))
    assert charged == event_to_json(felt) != event_to_json(mechanism.event(FILM.shape))


def test_what_the_budget_cannot_afford_leaves_nothing(clip: Path, command: Any) -> None:
    ledger = open_account(command, clip.parent, clip)
    words = ["release", clip, clip.with_name("out.mp4"), "--ledger", ledger, *POOLED]
    words[words.index("8")] = "21"
    done = command(*words, "--json")
    assert done.code == 3 and "Nothing was spent" in json.loads(done.err)["error"]
    assert command(*words, "--dry-run").code == 3
    assert kinds(ledger) == ["open", "add"] and names(clip.parent) == {"in.mp4"}


def test_videos_are_released_from_python_as_well(clip: Path) -> None:
    video, found = mq.read_video(str(clip)), mq.probe_file(str(clip))
    assert video.frames.shape == found.shape == FILM.shape and video.rate_hz == found.rate_hz == 25
    done = mq.release_file(str(clip), str(clip.with_name("out.mkv")), POOL)
    assert mq.check_receipt(done.value) == done.receipt
    assert done.receipt.shapes == (FILM.shape,) and done.receipt.guarantee.epsilon == 8.0
    labelled = mq.Video(frames=video.frames, rate_hz=25.0, subject="Ada", place="Kitchen")
    before = video.frames.copy()
    released = mq.release_value(labelled, POOL)
    assert np.array_equal(video.frames, before)
    assert released.value.frames.shape == FILM.shape and released.value.rate_hz == 25
    assert released.value.subject is None and released.value.place is None
    assert "Ada" not in released.receipt.to_json()
    with pytest.raises(ValueError, match=r"Expected one video, \(T, H, W, 3\)"):
        mq.release_value(np.zeros((4, 3)), POOL)


def test_a_file_that_is_swapped_after_it_was_charged_is_refused(
    clip: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_account(command, clip.parent, clip)
    monkeypatch.setattr(read, "read_frames", lambda path, **_: (frame for frame in FILM))
    with pytest.raises(BadInput, match="changed"):
        mq.release_file(clip, clip.with_name("out.mp4"), POOL, ledger=Ledger(ledger))


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
def test_memory_does_not_grow_with_the_length(name: str, tmp_path: Path) -> None:
    film, peaks, grey = maker.moving(10, 48, 64), [], "options=mq.Options(accept_grey=True)"
    plain = ", denoise='plain'" * (name == "cosine_gaussian")
    for count in (300, 3000):
        with (tmp_path / f"{count}.avi").open("wb") as stream:
            write.write_video(stream, islice(cycle(film), count), suffix=".avi", rate=RATE)
        made = f"mq.make_mechanism('{name}', epsilon=8, delta=1e-4, unit='value'{plain})"
        done = f"mq.release_file('{stream.name}', '{stream.name[:-3]}mp4', {made}, {grey})"
        peak = "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        peaks.append(int(python(f"import resource, masquerade as mq; {done}; {peak}")))
    assert abs(peaks[1] - peaks[0]) < 30_000, "kB"
