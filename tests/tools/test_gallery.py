"""The generated clip, and the page of pictures that is made of it."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import catalog
from masquerade.demo import films
from masquerade.mechanisms import face_blur
from masquerade.noise import Noise
from masquerade.publish.collections import read_video
from masquerade.recordings import Video
from tools import gallery

DOCS = Path(__file__).parents[2] / "docs"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def walk() -> Video:
    return films.make_clip()


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "gallery.md").read_text()


@pytest.fixture(scope="module")
def entries() -> dict[str, gallery.Entry]:
    return {entry.file: entry for entry in gallery.entries()}


def mask_of(video: Video) -> np.ndarray:
    assert video.person_mask is not None
    return video.person_mask


def test_the_clip_shows_a_person_where_the_mask_says(walk: Video) -> None:
    share = mask_of(walk).mean(axis=(1, 2))
    assert np.all(share > 0.005) and np.all(share < 0.3)
    room = np.median(walk.frames, axis=0)
    moved = np.abs(walk.frames - room).max(axis=3)
    assert moved[mask_of(walk)].mean() > 5 * moved[~mask_of(walk)].mean()


def test_the_portrait_shows_a_face_that_a_real_detector_finds() -> None:
    near = films.make_portrait()
    assert 0.15 < mask_of(near).mean() < 0.6
    blurred = face_blur.FaceBlur().apply(near.frames[:4], Noise())
    changed = (blurred != near.frames[:4]).any(axis=3)
    assert changed.mean() > 0.03
    assert changed[mask_of(near)[:4]].mean() > 2 * changed[~mask_of(near)[:4]].mean()


def test_the_clip_becomes_a_video_file(tmp_path: Path, walk: Video) -> None:
    path = films.write_clip(tmp_path / "clip.mp4", walk)
    found = read_video(path)
    assert found.frames.shape == walk.frames.shape and found.rate_hz == 25
    assert np.abs(found.frames.astype(int) - walk.frames).mean() < 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.mp4"]


def test_the_page_speaks_of_every_mechanism_and_setting(
    page: str, entries: dict[str, gallery.Entry]
) -> None:
    for name in catalog.list_entries("mechanisms"):
        assert f"\n## {name}\n" in page, f"{name} is new: run `python tools/gallery.py`"
    assert {Path(link).name for link in re.findall(r"\]\((gallery/.*?)\)", page)} == set(entries)
    assert "was generated and never lived" in page and "CLAIMED, NOT VALID" in page
    assert gallery._LEFT_OUT not in page


def test_heuristics_are_called_so_and_nothing_else_is(page: str) -> None:
    sections = re.split(r"\n## ", page)[1:]
    for section in sections:
        is_one = catalog.is_a("mechanisms", section.split("\n")[0], "Heuristic")
        assert ("*A heuristic.*" in section) is is_one
        assert ("this is a heuristic" in section) is is_one
        assert ("Differentially private with epsilon" in section) is not is_one


def test_every_picture_of_the_page_is_there_and_small(page: str) -> None:
    links = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert len(links) == len(set(links)) >= len(catalog.list_entries("mechanisms"))
    for link in links:
        data = (DOCS / link).read_bytes()
        assert data.startswith(PNG) and len(data) < 80_000, link
    stored = list((DOCS / "gallery").iterdir())
    assert {f"gallery/{path.name}" for path in stored} == set(links)
    assert sum(path.stat().st_size for path in stored) < 1_200_000


def test_what_attackers_found_stands_below_its_picture_and_survives_a_new_page(
    page: str, walk: Video, tmp_path: Path, entries: dict[str, gallery.Entry]
) -> None:
    found = gallery.attacked(page)
    assert len(found) >= 19 and set(found) <= set(entries)
    headings = (DOCS / "attacks/mechanisms.md").read_text()
    for line in found.values():
        anchor = re.search(r"mechanisms\.md#([\w-]+)\)", line)
        assert anchor is not None
        titles = re.findall(r"^## (.*)$", headings, re.M)
        assert anchor[1] in {re.sub(r"[^\w-]", "", each.replace(" ", "-")) for each in titles}
    shown = gallery.show(entries["blur-defaults.png"], walk, tmp_path)
    assert found["blur-defaults.png"] in gallery.markdown([shown], "gallery", before=page)


def test_the_attackers_figures_are_those_of_the_page_of_attacks(page: str) -> None:
    script = runpy.run_path(str(DOCS.parent / "benchmarks/attacks_page.py"))
    text = (DOCS / "attacks/mechanisms.md").read_text()
    assert script["pictured"](page, text) == page, "run benchmarks/attacks.py --write --gallery"


def test_one_entry_is_rebuilt_quickly(
    tmp_path: Path, walk: Video, entries: dict[str, gallery.Entry]
) -> None:
    entry = entries["pooled_gaussian-16_pixels.png"]
    shown = gallery.show(entry, walk, tmp_path)
    picture = read_video(tmp_path / entry.file).frames
    assert picture.shape == (1, 240, 644, 3)
    left, right = picture[0, ::2, :320:2], picture[0, ::2, 324::2]
    assert np.abs(left.astype(int) - walk.frames[len(walk.frames) // 2]).max() <= 4
    assert np.abs(right.astype(int) - walk.frames[len(walk.frames) // 2]).mean() > 8
    text = gallery.markdown([shown], "pictures")
    assert f"](pictures/{entry.file})" in text
    assert "epsilon 8 for 16 pixels" in text and "up to 16 sites" in text
    assert shown.quality is not None and f"PSNR {shown.quality.psnr:.1f} dB" in text


def test_what_cannot_be_fetched_is_left_out_and_said(
    tmp_path: Path, walk: Video, entries: dict[str, gallery.Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(name: str) -> Path:
        raise ConnectionError(f"no way to {name} from /home/someone")

    monkeypatch.setattr(face_blur, "fetch_asset", offline)
    shown = gallery.show(entries["face_blur-defaults.png"], walk, tmp_path)
    assert "no way to centerface" in shown.why_not and not list(tmp_path.iterdir())
    text = gallery.markdown([shown], "gallery")
    assert "## face_blur" in text and gallery._LEFT_OUT in text and "/home/" not in text


def test_the_largest_noise_makes_no_large_file() -> None:
    noise = np.random.default_rng(5).integers(0, 256, (2, 120, 160, 3), dtype=np.uint8)
    assert len(films.join_frames(noise[0] // 16, noise[1])) < 80_000


def test_the_pages_commands_do_what_they_say(
    tmp_path: Path, walk: Video, page: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = Video(frames=walk.frames[:4, :32, :48], rate_hz=25)
    films.write_clip("clip.mp4", small)
    lines = re.findall(r"^masquerade (release clip.mp4 .*)$", page, re.M)
    assert len(lines) == len(gallery.entries()) - len(gallery._NEAR), "faces are on the portrait"
    for line in lines:
        done = command(*shlex.split(line), "--dry-run", "--json")
        assert done.code == 0, done.err
        guarantee = done.json["guarantee"]
        assert (guarantee["kind"] == "heuristic") is ("--epsilon" not in line)
        if "--pixels 256" in line:
            assert guarantee["unit"]["sites"] == 256
