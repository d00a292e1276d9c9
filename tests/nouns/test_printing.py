"""Printing never fails what was done, and no name makes the terminal do anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import video_files as maker
from masquerade._formatting import escape_control

RUN = [sys.executable, "-c", "from masquerade.cli import main; main()"]
ODD = os.fsdecode(b"caf\xe9\x1b[2J\n\xff.png")


def picture(path: Path) -> Path:
    kind = maker.Kind(suffix=".png", codec="png", pixel_format="rgb24")
    plain = maker.make(path.with_name("plain.png"), maker.moving(1, 24, 32), kind)
    plain.rename(path)
    return path


def run(*words: object, shell: str = "", **options: Any) -> subprocess.CompletedProcess[bytes]:
    line = [os.fsencode(str(word)) for word in words]
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", *RUN, *line] if shell else [*RUN, *line]
    return subprocess.run(command, check=False, stderr=subprocess.PIPE, timeout=60, **options)


@pytest.mark.parametrize("as_json", [False, True])
def test_any_name_can_be_released_on_any_terminal(as_json: bool, tmp_path: Path) -> None:
    source = picture(tmp_path / ODD)
    target = tmp_path / f"out{ODD}"
    words = ("release", source, target, "--mechanism", "mosaic", *["--json"] * as_json)
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = run(*words, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, b"") and target.exists()
    assert b"\x1b" not in done.stdout and done.stdout.isascii()
    if as_json:
        told = json.loads(done.stdout)["output"]
        assert told.encode("utf-8") and "\\udcff" in told
    else:
        assert rb"\x1b[2J\n\xff.png" in done.stdout
    again = run(*words, stdout=subprocess.PIPE, env=environment)
    assert again.returncode == 2 and b"\x1b" not in again.stderr and b"stands there" in again.stderr


@pytest.mark.parametrize("shell", [">/dev/full", ">&-", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_release_that_cannot_be_announced_has_succeeded(shell: str, tmp_path: Path) -> None:
    source, target = picture(tmp_path / "a.png"), tmp_path / "b.png"
    done = run("release", source, target, "--mechanism", "mosaic", shell=shell)
    assert done.returncode == 0 and target.exists()
    assert (b"All is done" in done.stderr) == (shell == ">/dev/full")
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def test_a_reader_who_went_away_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run("release", picture(tmp_path / "a.png"), tmp_path / "b.png", "--mechanism", "mosaic",
               stdout=writing)  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_a_file_says_of_itself_is_escaped(tmp_path: Path, command: Any) -> None:
    path = tmp_path / "a.mkv"
    maker.make(path, maker.moving(2, 48, 64), maker.KINDS["ffv1.mkv"])
    path.write_bytes(path.read_bytes().replace(b"Lavf", b"\x1b[2J"))
    told = command("data", "probe", path)
    assert told.code == 0 and "\x1b" not in told.out and r"\x1b[2J" in told.out


def test_a_name_cannot_pretend_to_be_another_message(tmp_path: Path, command: Any) -> None:
    refused = command("data", "probe", tmp_path / "x\nmasquerade: all is well\u202e.mp4")
    assert refused.code == 4 and "\u202e" not in refused.err
    assert not any(line.startswith("masquerade: all") for line in refused.err.splitlines())


def test_printable_text_is_left_as_it_is() -> None:
    for text in ("Frühling 春 🎭", "a b", ""):
        assert escape_control(text) == text
    assert escape_control("\t\u200b\udc80\ud800") == r"\t\u200b\x80\ud800"
