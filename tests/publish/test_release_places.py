"""Places that no output can take: links that lead to themselves, and a private file's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import video_files as maker


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return maker.make(tmp_path / "in.mp4", maker.moving(3, 48, 64), maker.KINDS["h264.mp4"])


def looped(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def test_a_symlink_loop_is_refused_with_a_message(clip: Path, command: Any) -> None:
    loop, words = looped(clip.with_name("loop.mp4")), ("--mechanism", "mosaic")
    for more in ((), ("--dry-run",), ("--overwrite",)):
        refused = command("release", clip, loop, *words, *more)
        assert refused.code == 2 and "leads back to itself" in refused.err
    refused = command("release", clip.parent, clip.with_name("loop.mp4"), *words)
    assert refused.code == 2 and "leads back to itself" in refused.err
    refused = command("release", loop, clip.with_name("out.mp4"), *words)
    assert refused.code == 4 and "loop.mp4" in refused.err
    assert command("data", "probe", loop).code == 4
    assert {path.name for path in clip.parent.iterdir()} == {"in.mp4", "loop.mp4"}


@pytest.mark.parametrize("name", ["out.mp4", "out.mp4.receipt.json", "in.mp4", "./sub/../out.mp4"])
def test_a_private_export_may_not_take_the_outputs_place(
    name: str, clip: Path, command: Any
) -> None:
    (clip.parent / "sub").mkdir()
    words = ("--mechanism", "face_blur", "--export", clip.parent / name)
    refused = command("release", clip, clip.with_name("out.mp4"), *words)
    assert refused.code == 2 and "private export" in refused.err
    assert {path.name for path in clip.parent.iterdir()} == {"in.mp4", "sub"}
