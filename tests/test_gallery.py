"""The generated scene, and the page of pictures that is made of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import catalog
from masquerade.doors.data import read_video
from masquerade.recipes import gallery, scene
from masquerade.recordings import Video
from masquerade.release import face_blur

DOCS = Path(__file__).parent.parent / "docs"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def walk() -> Video:
    return scene.walking(frames=12)


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "gallery.md").read_text()


@pytest.fixture(scope="module")
def entries() -> dict[str, gallery.Entry]:
    return {entry.file: entry for entry in gallery.entries()}


def mask_of(video: Video) -> np.ndarray:
    assert video.person_mask is not None
    return video.person_mask


def centres(video: Video) -> np.ndarray:
    """Where the person is in each frame, left to right, in pixels."""
    return np.array([np.nonzero(mask)[1].mean() for mask in mask_of(video)])


@pytest.mark.parametrize("make", [scene.walking, scene.portrait])
def test_the_scene_is_the_same_every_time(make: Any) -> None:
    one, other = make(frames=3), make(frames=3)
    assert np.array_equal(one.frames, other.frames)
    assert np.array_equal(mask_of(one), mask_of(other))
    assert not np.array_equal(one.frames[0], one.frames[2])


def test_the_person_covers_some_of_every_frame_and_crosses_it(walk: Video) -> None:
    share = mask_of(walk).mean(axis=(1, 2))
    assert np.all(share > 0.02) and np.all(share < 0.2)
    steps = np.diff(centres(walk))
    assert np.all(steps > 0) and steps.sum() > 100
    rows = np.nonzero(mask_of(walk).any(axis=(0, 2)))[0]
    assert 74 <= rows[-1] - rows[0] <= 84, "about 80 pixels tall"


def test_the_person_is_where_the_mask_says(walk: Video) -> None:
    room = np.median(walk.frames, axis=0)
    moved = np.abs(walk.frames - room).max(axis=3)
    assert moved[mask_of(walk)].mean() > 5 * moved[~mask_of(walk)].mean()


def test_a_standing_foot_does_not_slide() -> None:
    for start in (0.1, 0.3):
        ankles = [scene._step(x, start + (x - 80) / 45)[0] for x in (80.0, 82.0, 84.0)]
        assert np.ptp([x for x, _ in ankles]) < 1e-9


def test_the_walk_scales_with_the_frame() -> None:
    small, large = (scene.walking(frames=2, height=h, width=w) for h, w in ((60, 80), (120, 160)))
    assert np.allclose(2 * centres(small), centres(large), atol=1.5)
    assert abs(mask_of(small).mean() - mask_of(large).mean()) < 0.005
    halved = large.frames.reshape(2, 60, 2, 80, 2, 3).mean(axis=(2, 4))
    assert np.abs(halved - small.frames).mean() < 3


def test_the_face_turns_and_the_mouth_moves_in_the_portrait() -> None:
    near = scene.portrait(frames=12)
    assert 0.2 < mask_of(near).mean() < 0.4
    assert np.all(mask_of(near)[:, 30:80, 70:90])
    changed = np.ptp(near.frames[:, 30:90, 60:105].astype(int), axis=0).max(axis=2)
    assert np.count_nonzero(changed > 40) > 50


@pytest.mark.parametrize("wrong", [{"frames": 0}, {"height": 0}, {"width": -1}])
def test_an_empty_scene_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        scene.walking(**wrong)


def test_the_scene_becomes_a_video_file(tmp_path: Path, walk: Video) -> None:
    path = scene.write(tmp_path / "scene.mp4", walk)
    found = read_video(path)
    assert found.frames.shape == walk.frames.shape and found.rate_hz == 25
    assert np.abs(found.frames.astype(int) - walk.frames).mean() < 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["scene.mp4"]


def test_the_page_speaks_of_every_mechanism_and_setting(
    page: str, entries: dict[str, gallery.Entry]
) -> None:
    for name in catalog.names("release"):
        assert f"\n## {name}\n" in page, f"{name} is new: run `masquerade recipe gallery`"
    assert {Path(link).name for link in re.findall(r"\]\((gallery/.*?)\)", page)} == set(entries)
    assert "was generated and never lived" in page and "CLAIMED, NOT VALID" in page
    assert gallery._LEFT_OUT not in page


def test_heuristics_are_called_so_and_nothing_else_is(page: str) -> None:
    sections = re.split(r"\n## ", page)[1:]
    for section in sections:
        is_one = catalog.is_a("release", section.split("\n")[0], "Heuristic")
        assert ("*A heuristic.*" in section) is is_one
        assert ("this is a heuristic" in section) is is_one
        assert ("Differentially private with epsilon" in section) is not is_one


def test_every_picture_of_the_page_is_there_and_small(page: str) -> None:
    links = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert len(links) == len(set(links)) >= len(catalog.names("release"))
    for link in links:
        data = (DOCS / link).read_bytes()
        assert data.startswith(PNG) and len(data) < 80_000, link
    stored = list((DOCS / "gallery").iterdir())
    assert {f"gallery/{path.name}" for path in stored} == set(links)
    assert sum(path.stat().st_size for path in stored) < 1_000_000


def test_one_entry_is_rebuilt_quickly(
    tmp_path: Path, walk: Video, entries: dict[str, gallery.Entry]
) -> None:
    entry = entries["pooled_gaussian-16_pixels.png"]
    shown = gallery.show(entry, walk, tmp_path)
    picture = read_video(tmp_path / entry.file).frames
    assert picture.shape == (1, 240, 644, 3)
    left, right = picture[0, ::2, :320:2], picture[0, ::2, 324::2]
    assert np.abs(left.astype(int) - walk.frames[6]).max() <= 4
    assert np.abs(right.astype(int) - walk.frames[6]).mean() > 8
    text = gallery.markdown([shown], "pictures")
    assert f"](pictures/{entry.file})" in text
    assert "epsilon 8 for 16 pixels" in text and "up to 16 sites" in text
    assert shown.quality is not None and f"PSNR {shown.quality.psnr:.1f} dB" in text


def test_what_cannot_be_fetched_is_left_out_and_said(
    tmp_path: Path, walk: Video, entries: dict[str, gallery.Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(name: str) -> Path:
        raise ConnectionError(f"no way to {name} from /home/someone")

    monkeypatch.setattr(face_blur, "fetch", offline)
    shown = gallery.show(entries["face_blur-defaults.png"], walk, tmp_path)
    assert "no way to centerface" in shown.why_not and not list(tmp_path.iterdir())
    text = gallery.markdown([shown], "gallery")
    assert "## face_blur" in text and gallery._LEFT_OUT in text and "/home/" not in text


def test_the_largest_noise_makes_no_large_file() -> None:
    noise = np.random.default_rng(5).integers(0, 256, (2, 120, 160, 3), dtype=np.uint8)
    assert len(gallery.side_by_side(noise[0] // 16, noise[1])) < 80_000


def test_the_pages_commands_do_what_they_say(
    tmp_path: Path, page: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene.write("scene.mp4", scene.walking(frames=4, height=32, width=48))
    lines = re.findall(r"^masquerade (release scene.mp4 .*)$", page, re.M)
    assert len(lines) == len(gallery.entries()) - 1, "the face is shown on the portrait"
    for line in lines:
        done = command(*shlex.split(line), "--dry-run", "--json")
        assert done.code == 0, done.err
        guarantee = done.json["guarantee"]
        assert (guarantee["kind"] == "heuristic") is ("--epsilon" not in line)
        if "--pixels 256" in line:
            assert guarantee["unit"]["sites"] == 256
