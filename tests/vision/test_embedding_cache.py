"""Kept features are private, whole, and made again when they are not."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from masquerade.vision import embedding_cache


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "private" / "embeddings"


class Eye:
    """Gives means, and counts how many pictures it was shown."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        self.seen += len(pictures)
        return pictures.reshape(len(pictures), -1).mean(axis=1, keepdims=True).astype(np.float32)


def pictures(count: int = 5) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 4, 4, 3), np.uint8)


def ask(shown: np.ndarray, eye: Eye, fingerprint: str = "a") -> np.ndarray:
    return embedding_cache.read_or_embed(shown, fingerprint=fingerprint, make=eye)


def test_a_picture_is_looked_at_once_for_each_network() -> None:
    shown, eye = pictures(), Eye()
    first = ask(shown, eye)
    np.testing.assert_array_equal(first, Eye()(shown))
    np.testing.assert_array_equal(ask(shown[::-1], eye), first[::-1])
    assert eye.seen == 5
    changed = shown.copy()
    changed[2, 0, 0, 0] ^= 1
    np.testing.assert_array_equal(ask(changed, eye), Eye()(changed))
    assert eye.seen == 6
    ask(shown, eye, fingerprint="other weights")
    assert eye.seen == 11


def test_the_same_bytes_in_another_shape_are_another_picture() -> None:
    eye = Eye()
    ask(pictures(1), eye)
    ask(pictures(1).reshape(1, 2, 8, 3), eye)
    assert eye.seen == 2


def test_a_picture_that_comes_twice_is_looked_at_once() -> None:
    eye = Eye()
    found = ask(np.repeat(pictures(2), 3, axis=0), eye)
    assert eye.seen == 2 and len(found) == 6
    np.testing.assert_array_equal(found[0], found[2])


def test_only_the_owner_can_open_what_is_kept(home: Path) -> None:
    home.parent.mkdir(parents=True, mode=0o755)
    home.mkdir(mode=0o755)
    ask(pictures(), Eye())
    folders = [home.parent, home, *(path for path in home.iterdir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    files = [path for path in home.rglob("*") if path.is_file()]
    assert len(files) == 5 and {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_damaged_entry_is_made_again(home: Path) -> None:
    shown, eye = pictures(), Eye()
    first = ask(shown, eye)
    for path, harm in zip(sorted(home.rglob("*.features")), range(3), strict=False):
        data = path.read_bytes()
        path.write_bytes((b"", data[:-3], data[:-1] + bytes([data[-1] ^ 1]))[harm])
    np.testing.assert_array_equal(ask(shown, eye), first)
    assert eye.seen == 8
    ask(shown, eye)
    assert eye.seen == 8, "and kept again"


def test_forgetting_leaves_nothing(home: Path) -> None:
    assert embedding_cache.clear_embeddings() == 0
    eye = Eye()
    ask(pictures(), eye)
    assert embedding_cache.clear_embeddings() == 5
    assert not list(home.parent.iterdir())
    ask(pictures(), eye)
    assert eye.seen == 10


def _fill(count: int) -> None:
    for _ in range(3):
        ask(pictures(count), Eye())
        embedding_cache.clear_embeddings()
    ask(pictures(count), Eye())


def test_two_processes_may_keep_and_forget_at_once(home: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_fill, args=(40,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert not [path for path in home.parent.rglob("*") if path.suffix == ".part"]
    np.testing.assert_array_equal(ask(pictures(40), Eye()), Eye()(pictures(40)))


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    with pytest.raises(OSError, match="MASQUERADE_CACHE"):
        ask(pictures(1), Eye())
