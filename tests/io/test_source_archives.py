"""A file comes out of a source archive, and nothing of that archive is run."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from test_assets import DATA, Server, World, asset, server, world

from conftest import python
from masquerade.errors import BadInput
from masquerade.io import downloads, only_download

__all__ = ["server", "world"]  # fixtures
SDIST = "Toy_Face-1.0.tar.gz"
MEMBER = "Toy_Face-1.0/toy/face.dat"
Patch = pytest.MonkeyPatch
FACE = asset(MEMBER, tag="sdist")


def packed(files: dict[str, bytes], link: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as box:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            if name == link:
                info.type, info.linkname = tarfile.SYMTYPE, "elsewhere"
            else:
                info.size = len(data)
            box.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def trapped(mark: Path) -> dict[str, bytes]:
    """What pip would run: a setup file, and a package that builds itself."""
    trap = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    build = '[build-system]\nrequires = []\nbuild-backend = "made"\nbackend-path = ["."]\n'
    names = ("setup.py", "made.py", "pyproject.toml", "PKG-INFO")
    named = "Metadata-Version: 2.1\nName: Toy.Face\nVersion: 1.0\n"
    texts = (trap, trap, build, named)
    return {
        f"Toy_Face-1.0/{name}": text.encode() for name, text in zip(names, texts, strict=True)
    } | {MEMBER: DATA}


@pytest.mark.parametrize("left_out", ["made.py pyproject.toml", "setup.py"])
def test_a_source_archive_gives_its_file_and_runs_nothing(left_out: str, world: World) -> None:
    mark = world.files / "mark"
    files = {
        name: data
        for name, data in trapped(mark).items()
        if name.rpartition("/")[2] not in left_out.split()
    }
    data = packed(files)
    world.publish(**{SDIST: data})
    seen: list[tuple[int, int | None]] = []
    path = downloads.fetch_unlisted(FACE, progress=lambda *told: seen.append(told))
    assert path.read_bytes() == DATA and path.name == "face.dat"
    assert seen[-1] == (len(data),) * 2
    assert world.left_over() == ["face.dat"] and not mark.exists()
    words = ("download", "--no-deps", "--no-build-isolation", "-qqq", "--no-binary=:all:")
    subprocess.run(
        [sys.executable, "-m", "pip", *words, f"--dest={world.files}", "Toy.Face==1.0"],
        stderr=subprocess.DEVNULL,
    )
    assert mark.exists(), "pip alone walks into the trap"


def test_it_comes_from_a_server_and_a_login_stays_unsaid(
    world: World, server: Server, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{server.host}/simple")
    page = f'<a href="/{SDIST}">{SDIST}</a>'.encode()
    server.answers["/simple/toy-face/"] = (200, {"Content-Type": "text/html"}, page)
    with pytest.raises(ConnectionError, match=r"Toy.Face 1.0 \(pypi, sdist\), got: .*404") as error:
        downloads.fetch_unlisted(FACE)
    assert "secret" not in str(error.value)
    mark = world.files / "mark"
    server.answers[f"/{SDIST}"] = (200, {}, packed(trapped(mark)))
    assert downloads.fetch_unlisted(FACE).read_bytes() == DATA and not mark.exists()
    assert server.asked[-1] == (f"/{SDIST}", "Basic bWU6c2VjcmV0")


def test_where_there_is_no_source_archive_it_is_said(world: World) -> None:
    world.publish(**{"toy_face-0.9.tar.gz": packed({})})
    with pytest.raises(BadInput, match=r"\(pypi, sdist\), got: it is not there"):
        downloads.fetch_unlisted(FACE)


def as_it_came(world: World, monkeypatch: Patch, data: bytes) -> None:
    def download(_: object, folder: Path, **__: object) -> Path:
        (folder / SDIST).write_bytes(data)
        return folder / SDIST

    monkeypatch.setattr("masquerade.io.downloads.download_archive", download)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (packed({MEMBER: b"poison"}), r"Toy.Face 1.0 with SHA-256 .*, got "),
        (packed({MEMBER: DATA}, link=MEMBER), "a plain file; it is a link"),
        (packed({"Toy_Face-1.0/face.dat": DATA}), r"in the sdist .*Similar: Toy_Face-1.0/face.dat"),
        (packed({MEMBER: DATA})[:-200], r"a whole sdist of Toy.Face"),
        (b"<html>", r"a whole sdist of Toy.Face"),
        (packed({}), r"no such file among its 0"),
    ],
    ids=("poisoned", "a link", "elsewhere", "cut off", "a page", "empty"),
)
def test_what_is_not_the_file_on_the_list_is_refused(
    world: World, monkeypatch: Patch, data: bytes, rule: str
) -> None:
    as_it_came(world, monkeypatch, data)
    with pytest.raises(BadInput, match=rule):
        downloads.fetch_unlisted(FACE)
    assert world.left_over() == []


def test_a_file_that_is_too_large_is_refused(world: World, monkeypatch: Patch) -> None:
    as_it_came(world, monkeypatch, packed({MEMBER: DATA}))
    monkeypatch.setattr(downloads, "MEMBER_LIMIT", 1000)
    with pytest.raises(BadInput, match="at most 1000 bytes"):
        downloads.fetch_unlisted(FACE)


@pytest.fixture
def watching(tmp_path: Path) -> Callable[[str], str]:
    """What a process prints that watches for an archive."""
    start = "import subprocess, sys; from pathlib import Path\n"
    start += "from masquerade.io.only_download import normalize_name, stop_on_open\n"
    start += f"stop_on_open(normalize_name('toy-face-1.0.tar.gz'), Path({str(tmp_path)!r}))\n"
    return lambda code: python(start + code)


def test_the_process_ends_when_the_archive_is_read(
    watching: Callable[[str], str], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    code = f"path = Path({str(there)!r}) / 'Toy_Face-1.0.tar.gz'\n"
    code += "path.write_bytes(b'all'); print('written', flush=True)\n"
    code += "open(path, 'rb').read(); print('read', flush=True)"
    assert watching(code).split() == ["written"]
    assert (tmp_path / "Toy_Face-1.0.tar.gz").read_bytes() == b"all"


def test_no_python_is_started_before_it_and_other_programs_are(
    watching: Callable[[str], str],
) -> None:
    assert watching("print(subprocess.run(['true']).returncode)").split() == ["0"]
    with pytest.raises(subprocess.CalledProcessError) as error:
        watching("subprocess.run([sys.executable, '-c', 'print(1)']); print(2)")
    assert "was stopped" in error.value.stderr and not error.value.stdout


def test_names_are_compared_as_indexes_spell_them() -> None:
    spelt = ("Toy.Face-1.0.tar.gz", "toy_face-1.0.tar.gz", "toy-face-1.0.tar.gz")
    assert len({only_download.normalize_name(name) for name in spelt}) == 1
