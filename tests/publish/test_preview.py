"""The sheet of before and after: a stand-in unless the private film is asked for, and marked."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files
from masquerade.cli import preview
from masquerade.io.video import read

FILM = video_files.moving(6, 24, 40)
QUICK = ("--units", "pixels", "subject", "--epsilons", "1", "8", "--frames", "4")


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "ward.mkv"
    video_files.make(path, FILM, video_files.KINDS["ffv1.mkv"])
    return path


def test_a_stand_in_is_drawn_and_no_frame_of_the_private_film_is_read(
    film: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("frames were read")

    monkeypatch.setattr(read, "read_segment", never)
    done = command("preview", film, *QUICK)
    sheet = film.with_name("ward-preview.PRIVATE.svg")
    text = sheet.read_text()
    assert done.code == 0 and "Nobody on this sheet ever lived" in done.out
    assert text.count("<image ") == 2 * 3 and "PRIVATE preview" in text
    assert "up to 256 sites" in text and "4 of 6 frames: under subject" in text
    assert stat.S_IMODE(sheet.stat().st_mode) == 0o600
    again = command("preview", film, *QUICK)
    assert again.code == 2 and "--overwrite" in again.err


def test_the_private_film_is_drawn_only_when_it_is_asked_for_and_the_sheet_says_so(
    film: Path, command: Any
) -> None:
    texts = []
    for words in (QUICK, (*QUICK, "--private")):
        assert command("preview", film, *words, "--out", film.with_name("s.svg"), "--overwrite")
        texts.append(film.with_name("s.svg").read_text())
    assert "PRIVATE: this sheet shows ward.mkv itself" in texts[1]
    assert "itself" not in texts[0]
    first = [text.split("base64,")[1][:400] for text in texts]
    assert first[0] != first[1], "another film stands before"


def test_the_noise_is_of_a_rehearsal(film: Path, command: Any) -> None:
    texts = []
    for name in ("a.svg", "b.svg"):
        command("preview", film, *QUICK, "--out", film.with_name(name))
        texts.append(film.with_name(name).read_text())
    assert texts[0] == texts[1]


def test_a_stand_in_has_any_size() -> None:
    for frames, high, wide in ((2, 9, 33), (1, 40, 64)):
        made = preview.make_stand_in(frames, high, wide).frames
        assert made.shape == (frames, high, wide, 3) and np.ptp(made) > 20


def test_what_cannot_be_previewed_is_refused(film: Path, command: Any, tmp_path: Path) -> None:
    (tmp_path / "heart.csv").write_text("60\n61\n")
    assert command("preview", tmp_path / "heart.csv").code == 4
    assert "cosine_gaussian" in command("preview", film, "--mechanism", "blur").err
    assert "did you mean subject or tube" in command("preview", film, "--units", "person").err
    assert ".svg" in command("preview", film, "--out", "x.png").err
