"""Films that are released once: what is kept is what was made, and MaskDP sees what is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_avatars
from experiments import avatar_films
from experiments.avatar_films import AvatarFilm, AvatarFilms, Summary
from masquerade.avatars.avatar import Avatar
from masquerade.datasets.mask_files import MaskFiles
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.noise import Noise
from masquerade.training.views import FILL_LEVEL, PrivateSide, find_hidden_pixels, public_view

pytest.importorskip("cv2")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")


NETWORKS = ("selfie_segmentation", "pose_detection", "pose_landmark_full", "centerface")
TINY = Stage(**fake_avatars.WORLD | {"videos": 12})  # type: ignore[arg-type]


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AvatarFilms:
    """Four films to learn from and two to test on, of blocks."""
    monkeypatch.setattr(avatar_films, "make_film", fake_avatars.made)
    return AvatarFilms.of(TINY, folder=tmp_path)


def same(one: AvatarFilm, other: AvatarFilm) -> bool:
    names = ("frames", "emptied", "avatars", "people", "q", "r", "eroded_r", "visible", "blurred")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_film_comes_back_from_its_file_as_it_was_and_the_file_is_small(tmp_path: Path) -> None:
    film, path = fake_avatars.made(TINY, 1), tmp_path / "one.npz"
    path.write_bytes(film.to_bytes())
    assert same(AvatarFilm.read(path), film)
    assert path.stat().st_size < 1.6 * film.frames.nbytes, "three films in little more than one"


def test_what_changed_outside_of_the_masks_is_not_kept() -> None:
    film = fake_avatars.made(TINY, 0)
    for name in ("emptied", "avatars"):
        changed = getattr(film, name).copy()
        changed[3, 0, 0] ^= 1
        with pytest.raises(ValueError, match="no change outside of"):
            replace(film, **{name: changed}).to_bytes()


def test_a_film_that_is_missing_or_broken_is_named(films: AvatarFilms) -> None:
    part = films.select_part("train")
    with pytest.raises(BadInput, match="make it first"):
        part[0]
    part.path(0).parent.mkdir(parents=True)
    for content in (b"", b"nonsense", fake_avatars.made(TINY, 0).to_bytes()[:-3000]):
        part.path(0).write_bytes(content)
        with pytest.raises(BadInput, match="delete it"):
            part[0]


def test_a_stopped_run_goes_on_with_the_films_that_are_missing(
    films: AvatarFilms, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, int]] = []

    def stopping(stage: Stage, index: int) -> AvatarFilm:
        asked.append((stage.split, index))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return fake_avatars.made(stage, index)

    monkeypatch.setattr(avatar_films, "make_film", stopping)
    with pytest.raises(KeyboardInterrupt):
        films.make(jobs=1)
    told: list[tuple[str, int, int]] = []
    films.make(jobs=1, progress=lambda *far: told.append(far))
    assert len(asked) == 3 + 4 and asked[3] == asked[2], "two of six films were there"
    assert told[-1][1:] == (4, 4)
    films.make(jobs=1)
    assert len(asked) == 7, "all are there"
    parts = films.used
    assert [len(part) for part in parts] == [4, 2]
    assert {film.stem for film in films.folder.rglob("*.npz")} == {
        known.name.rpartition("/")[2] for part in parts for known in part.labels
    }


def test_other_films_lie_elsewhere_and_the_same_in_the_same_place(tmp_path: Path) -> None:
    first = AvatarFilms.of(TINY, folder=tmp_path).folder
    assert AvatarFilms.of(TINY.select_part("test"), folder=tmp_path).folder == first
    for other in ({"seed": 1}, {"height": 72}, {"frames": 17}, {"videos": 24}):
        assert AvatarFilms.of(replace(TINY, **other), folder=tmp_path).folder != first  # type: ignore[arg-type]


def test_eroded_r_is_what_mask_dp_takes_as_public_to_the_bit(films: AvatarFilms) -> None:
    films.make(jobs=1)
    for part in films.used:
        for number in range(len(part)):
            video, film = part.as_shown("avatars")[number], part.film(number)
            assert np.array_equal(find_hidden_pixels(video, PrivateSide.BACKGROUND), ~film.eroded_r)
            seen = public_view(video, PrivateSide.BACKGROUND)
            assert np.array_equal(seen[film.eroded_r], film.avatars[film.eroded_r])
            assert (seen[~film.eroded_r] == FILL_LEVEL).all()
            assert np.array_equal(seen, part.as_shown("isolated")[number].frames)
            assert video.activity == part.labels[number].activity


def test_each_way_shows_its_own_frames(films: AvatarFilms) -> None:
    films.make(jobs=1)
    part = films.select_part("test")
    film = part.film(0)
    assert np.array_equal(part[0].frames, film.frames)
    assert np.array_equal(np.asarray(part[0].person_mask), film.people)
    emptied = part.as_shown("emptied")[0]
    assert np.array_equal(emptied.frames, film.emptied) and emptied.person_mask is None
    assert np.array_equal(part.as_shown("avatars")[0].frames, film.avatars)


def test_a_summary_counts_what_is_left_of_people(films: AvatarFilms) -> None:
    films.make(jobs=1)
    some = [part.film(number) for part in films.used for number in range(len(part))]
    nobody = replace(some[0], r=np.zeros_like(some[0].r))
    found = Summary.of(iter([*some, nobody]))
    assert (found.films, found.without, found.frames, found.undrawn) == (7, 1, 7 * 16, 16)
    assert found.shown_films == 2 and found.visible == pytest.approx(1 / 7)
    assert found.outside == 0 and found.blurred == 3
    with pytest.raises(BadInput, match="at least one film"):
        Summary.of(iter(()))


@pytest.fixture
def world(world_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in NETWORKS:
        try:
            held = downloads.fetch_asset(name)
        except (OSError, BadInput) as error:
            pytest.skip(f"{name} cannot be had: {error}")
        link = world_cache / held.relative_to(downloads.cache_folder())
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(held)
    monkeypatch.setenv("MASQUERADE_CACHE", str(world_cache))
    yield avatar_films.size_stage(Stage(videos=12, frames=3, split="train"))


def test_a_film_of_stage_is_released_as_the_command_releases_it(
    world: Stage, tmp_path: Path
) -> None:
    film = avatar_films.make_film(world, 0)
    video: Any = world[0]
    assert film.frames.shape == (3, 224, 224, 3) and film.r.any()
    assert np.array_equal(film.frames, video.frames)
    assert np.array_equal(film.people, video.person_mask)
    assert same(avatar_films.make_film(world, 0), film), "a film comes again"
    number = int(world.labels[0].name.rpartition("/")[2])
    noise = Noise(seed=number)
    study = Avatar().first_pass(iter(film.frames), film.frames.shape, rate_hz=10.0, noise=noise)
    with closing(study):
        out = np.stack(list(study.stream(iter(film.frames), film.frames.shape, noise)))
        along = io.BytesIO()
        study.write_sidecar(".masks.npz", along)
    assert np.array_equal(out, film.avatars)
    (tmp_path / "one.masks.npz").write_bytes(along.getvalue())
    files = MaskFiles(folder=tmp_path, private="background")
    assert np.array_equal(files.read_mask("one.mp4", out.shape).person, film.eroded_r)
    assert film.to_bytes() and film.visible < 0.05 * film.people.sum()
