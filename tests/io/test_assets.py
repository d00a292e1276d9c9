"""Assets come out of archives unchanged or not at all; nothing of a package is ever run."""

from __future__ import annotations

import errno
import hashlib
import io
import multiprocessing
import os
import re
import resource
import shutil
import signal
import stat
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import python
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.downloads import Asset

DATA = bytes(range(256)) * 1000
Patch = pytest.MonkeyPatch
PURE = "toy_face-1.0-py3-none-any.whl"


def asset(member: str = "toy/face.onnx", data: bytes = DATA, **changes: str) -> Asset:
    fields = {"name": "face", "package": "Toy.Face", "version": "1.0", "member": member}
    fields |= {"licence": "MIT", "about": "A toy."}
    return Asset(**(fields | {"sha256": hashlib.sha256(data).hexdigest()} | changes))


def zipped(members: dict[str, bytes], link: str = "", version: str = "1.0") -> bytes:
    named = f"Metadata-Version: 2.1\nName: Toy.Face\nVersion: {version}\n".encode()
    folder = f"toy_face-{version}.dist-info"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as box:
        for name, data in (
            members | {f"{folder}/METADATA": named, f"{folder}/WHEEL": b"Wheel-Version: 1.0"}
        ).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK if name == link else stat.S_IFREG) << 16
            box.writestr(info, data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


GOOD = {PURE: zipped({"toy/face.onnx": DATA})}


class World:  # a machine with an index folder, an empty cache, few settings of pip
    def __init__(self, root: Path) -> None:
        self.index, self.files, self.cache = root / "index", root / "files", root / "cache"
        self.index.mkdir()
        self.files.mkdir()

    def publish(self, **archives: bytes) -> None:
        page = self.index / "toy-face" / "index.html"
        page.parent.mkdir(exist_ok=True)
        for name, data in archives.items():
            (self.files / name).write_bytes(data)
        anchors = (f'<a href="../../files/{name}">{name}</a>' for name in archives)
        page.write_text("<!DOCTYPE html>" + "<br>".join(anchors))

    def left_over(self) -> list[str]:
        return [path.name for path in self.cache.rglob("*") if path.is_file()]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: Patch) -> World:
    for key in [key for key in os.environ if key.lower().startswith("pip_")]:
        monkeypatch.delenv(key)
    made = World(tmp_path)
    monkeypatch.setenv("MASQUERADE_CACHE", str(made.cache))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", made.index.as_uri())
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "*")
    return made


@pytest.fixture
def copied(world: World, monkeypatch: Patch) -> World:
    """The same without pip, which takes a second: what comes after it."""

    def download(_: Asset, folder: Path, **__: object) -> Path:
        return Path(shutil.copy(world.files / PURE, folder))

    monkeypatch.setattr(downloads, "download_archive", download)
    return world


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, headers, body = self.server.answers.get(self.path, (404, {}, b""))
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


class Server(ThreadingHTTPServer):  # answers as told; remembers who asked with which login
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.host = f"127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def test_every_entry_of_the_list_is_complete() -> None:
    assert len(set(downloads.list_assets())) == len(downloads.list_assets()) >= 14
    for name in downloads.list_assets():
        entry = downloads.find_asset(name)
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256) and entry.licence and entry.about
        words = (entry.package, entry.version, entry.licence)
        assert all(word in downloads.describe_asset(entry) for word in words)


def test_wrong_entries_and_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean centerface"):
        downloads.fetch_asset("centreface")
    wrong = {"sha256": "0" * 63, "member": "toy/..", "tag": "any"}
    rules = ("64 hex digits", "name a file", "py3-none-any")
    for change, rule in zip(wrong.items(), rules, strict=True):
        with pytest.raises(ValueError, match=rule):
            asset(**dict([change]))


def test_our_sources_name_no_host() -> None:
    host = re.compile(r"\b(?!masquerade\.)[a-z0-9-]+\.(org|com|io|net|dev)\b")
    assert host.search("https://index.example.org/simple")
    for path in Path(downloads.__file__).parent.glob("*.py"):
        assert not host.search(path.read_text()), path


@pytest.mark.parametrize("tag", ["py3-none-any", "cp39-abi3-win_amd64"])
def test_the_wheel_of_the_tag_is_taken_on_every_platform(tag: str, world: World) -> None:
    other, named = zipped({"toy/face.onnx": b"other"}), f"toy_face-1.0-{tag}.whl"
    mine = "toy_face-1.0-1-cp{}{}-none-any.whl".format(*sys.version_info[:2])
    wrong = (mine, "toy_face-1.0-cp39-abi3-win_amd64.whl", PURE)
    later = {"toy_face-1.0.1-py3-none-any.whl": zipped({"toy/face.onnx": b"late"}, version="1.0.1")}
    world.publish(**(dict.fromkeys(wrong, other) | later | {named: GOOD[PURE]}))
    seen: list[tuple[int, int | None]] = []
    path = downloads.fetch_unlisted(asset(tag=tag), progress=lambda *told: seen.append(told))
    assert path.read_bytes() == DATA and path.parent.name == asset().sha256[:16]
    assert seen[-1] == (len(GOOD[PURE]),) * 2 and world.left_over() == ["face.onnx"]


def test_a_whole_wheel_can_be_had(world: World) -> None:
    world.publish(**GOOD)
    assert downloads.fetch_unlisted(asset("", GOOD[PURE])).read_bytes() == GOOD[PURE]


def test_pip_says_nothing(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.publish(**GOOD)
    downloads.fetch_unlisted(asset())
    assert capfd.readouterr() == ("", "")


def test_an_sdist_is_not_taken_and_its_setup_file_never_run(world: World) -> None:
    mark = world.files / "mark"
    setup = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as box:
        box.writestr("toy_face-1.0/setup.py", setup)
    world.publish(**{"toy_face-1.0.zip": stream.getvalue()})
    with pytest.raises(BadInput, match="it is not there"):
        downloads.fetch_unlisted(asset())
    assert not mark.exists()
    python(setup)
    assert mark.exists(), "the trap itself works"


def test_a_wrong_hash_names_both_and_leaves_nothing(copied: World) -> None:
    copied.publish(**{PURE: zipped({"toy/face.onnx": b"poison"})})
    got = hashlib.sha256(b"poison").hexdigest()
    with pytest.raises(BadInput, match=rf"Toy.Face 1.0 .*{asset().sha256}, got {got}"):
        downloads.fetch_unlisted(asset())
    assert copied.left_over() == []


def test_a_damaged_cache_is_mended(copied: World) -> None:
    copied.publish(**GOOD)
    for damage in (b"", DATA[:-1], DATA[:-1] + b"x"):
        downloads.fetch_unlisted(asset()).write_bytes(damage)
        assert downloads.fetch_unlisted(asset()).read_bytes() == DATA


def test_what_is_cached_needs_neither_network_nor_pip(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    path = downloads.fetch_unlisted(asset())
    monkeypatch.setattr(downloads.importlib.util, "find_spec", {}.get)  # type: ignore[attr-defined]
    assert downloads.fetch_unlisted(asset()) == path
    path.unlink()
    with pytest.raises(
        BadInput, match=r"Expected pip .* Toy\.Face 1\.0 .* run python -m ensurepip"
    ):
        downloads.fetch_unlisted(asset())


def test_the_files_of_one_archive_come_together(copied: World, monkeypatch: Patch) -> None:
    many = [asset(f"toy/{word}", word.encode(), name=word) for word in ("one", "two", "bad")]
    monkeypatch.setattr(downloads, "KNOWN", many)
    copied.publish(**{PURE: zipped({"toy/one": b"one", "toy/two": b"two", "toy/bad": b"?"})})
    assert downloads.fetch_asset("one").read_bytes() == b"one"
    assert sorted(copied.left_over()) == ["one", "two"]
    with pytest.raises(BadInput, match=r"toy/bad of Toy.Face"):
        downloads.fetch_asset("bad")


def exit_codes(*works: Callable[[], object]) -> list[int]:
    children = []
    for work in works:
        children.append(os.fork())
        if children[-1] == 0:
            try:
                work()
                os._exit(0)
            except OSError as error:
                os._exit(7 if "Expected room for" in str(error) else 8)
            finally:
                os._exit(9)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_two_processes_at_once_both_succeed(copied: World, monkeypatch: Patch) -> None:
    copied.publish(**GOOD)
    with monkeypatch.context() as patch, pytest.raises(AttributeError):
        patch.delattr(Path, "replace")  # what is complete gets its final name by this alone
        downloads.fetch_unlisted(asset())
    assert copied.left_over() == []
    content, barrier = (
        downloads.open_content,
        multiprocessing.Barrier(2),
    )  # both have a file open there
    monkeypatch.setattr(
        downloads, "open_content", lambda *words: [barrier.wait(9), content(*words)][1]
    )
    assert exit_codes(*[lambda: downloads.fetch_unlisted(asset())] * 2) == [0, 0]
    assert (
        copied.left_over() == ["face.onnx"]
        and downloads.fetch_unlisted(asset()).read_bytes() == DATA
    )


def test_members_that_are_links_are_refused(copied: World) -> None:
    copied.publish(**{PURE: zipped({"toy/face.onnx": DATA}, link="toy/face.onnx")})
    with pytest.raises(BadInput, match="a plain file; it is a link"):
        downloads.fetch_unlisted(asset())
    assert copied.left_over() == []


def test_a_missing_member_is_named_with_similar_ones(copied: World) -> None:
    copied.publish(**{PURE: zipped({"src/face.onnx": DATA, "toy/face.py": b""})})
    with pytest.raises(BadInput, match=r"toy/face.onnx in the wheel.*src/face.onnx, toy/face.py"):
        downloads.fetch_unlisted(asset())


def test_wheels_that_are_damaged_or_too_large_are_refused(world: World, monkeypatch: Patch) -> None:
    noise = hashlib.shake_256(b"").digest(200_000)
    whole = zipped({"toy/face.onnx": noise})
    for data in (whole[:-100], b"<html>"):
        world.publish(**{PURE: data})
        with pytest.raises(BadInput, match=r"Toy.Face 1.0 .*, got: Wheel .* is invalid"):
            downloads.fetch_unlisted(asset(data=noise))
    world.publish(**{PURE: whole[:1000] + b"damage" + whole[1006:]})
    with pytest.raises(BadInput, match=r"a whole wheel of Toy.Face"):
        downloads.fetch_unlisted(asset(data=noise))
    world.publish(**{PURE: whole})
    monkeypatch.setattr(downloads, "MEMBER_LIMIT", 1000)
    with pytest.raises(BadInput, match=r"at most 1000 bytes in toy/face.onnx"):
        downloads.fetch_unlisted(asset(data=noise))
    assert world.left_over() == []


def test_a_member_gives_no_more_than_it_states(copied: World) -> None:
    short, told = (len(data).to_bytes(4, "little") for data in (b"x", DATA))
    central = GOOD[PURE].rindex(b"PK\x01\x02", 0, GOOD[PURE].index(b"PK\x01\x02") + 4)
    lying = GOOD[PURE][:central] + GOOD[PURE][central:].replace(told, short, 1)
    copied.publish(**{PURE: lying})
    with pytest.raises(BadInput, match=r"SHA-256|a whole wheel"):
        downloads.fetch_unlisted(asset())
    assert copied.left_over() == []


def test_the_cache_stands_where_the_environment_says(monkeypatch: Patch) -> None:
    for key, value in (("MASQUERADE_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")):
        monkeypatch.setenv(key, value)
    assert downloads.cache_folder() == Path("/a")
    monkeypatch.setenv("MASQUERADE_CACHE", "")
    assert downloads.cache_folder() == Path("/b/masquerade")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert downloads.cache_folder() == Path("/c/.cache/masquerade")


def test_no_room_and_no_folder_are_said(copied: World, monkeypatch: Patch) -> None:
    copied.publish(**GOOD)

    def squeezed() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        downloads.fetch_unlisted(asset())

    assert exit_codes(squeezed) == [7] and copied.left_over() == []
    monkeypatch.setenv("MASQUERADE_CACHE", str(copied.files / PURE))
    with pytest.raises(OSError, match="set MASQUERADE_CACHE to another folder"):
        downloads.fetch_unlisted(asset())


def test_no_room_for_the_wheel_is_said() -> None:
    said = os.strerror(errno.ENOSPC)
    trouble = downloads._make_pip_error(asset(), f"ERROR: Could not install: [Errno 28] {said}")
    assert isinstance(trouble, OSError) and "set TMPDIR" in str(trouble)


def test_a_folder_of_wheels_serves_without_an_index(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BadInput, match="it is not there"):
        downloads.fetch_unlisted(asset())
    for place in (world.files, (world.files / PURE).as_uri(), world.index / "toy-face/index.html"):
        monkeypatch.setenv("PIP_FIND_LINKS", f"{world.cache} {place}")
        downloads.fetch_unlisted(asset()).unlink()


def test_pip_is_used_as_its_settings_say(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    settings = world.files / "pip.conf"
    settings.write_text(
        f"[global]\nindex-url = {world.index.as_uri()}\nrequire-virtualenv = true\nquiet = 3\n"
    )
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")
    assert downloads.fetch_unlisted(asset()).read_bytes() == DATA
    settings.write_text("[global\n")
    assert downloads.fetch_unlisted(asset()).read_bytes() == DATA, "it is in the cache"
    downloads.fetch_unlisted(asset()).unlink()
    with pytest.raises(BadInput, match=r"Expected pip .*, got: Configuration file .*Mend that"):
        downloads.fetch_unlisted(asset())


def test_trouble_is_said_without_a_login(world: World, server: Server, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{server.host}/simple")
    html, page = {"Content-Type": "text/html"}, f'<a href="/{PURE}">x</a>'.encode()
    for answer, wheel, message in (
        ((403, html, b""), (404, {}, b""), "403 .*Check the network"),
        ((200, html, page), (403, {}, b""), "403 .*Check the network"),
        ((200, html, b""), (404, {}, b""), r"not there. Looking in .*Set pip up"),
        ((404, html, b""), (404, {}, b""), r"not there. Looking in .*Set pip up"),
    ):
        server.answers["/simple/toy-face/"] = answer
        server.answers[f"/{PURE}"] = wheel
        with pytest.raises((ConnectionError, BadInput), match=message) as error:
            downloads.fetch_unlisted(asset())
        assert "secret" not in str(error.value) and "\n" not in str(error.value)
    server.answers["/simple/toy-face/"] = (200, html, page)
    server.answers[f"/{PURE}"] = (200, {}, GOOD[PURE])
    assert downloads.fetch_unlisted(asset()).read_bytes() == DATA
    assert server.asked[-1] == (f"/{PURE}", "Basic bWU6c2VjcmV0")


def test_a_place_that_cannot_be_reached(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ConnectionError, match=r"127.0.0.1:9/simple/toy-face/.*Check the network"):
        downloads.fetch_unlisted(asset())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", world.index.as_uri())
    assert downloads.fetch_unlisted(asset()).read_bytes() == DATA


def test_a_process_that_is_killed_does_no_harm(copied: World, monkeypatch: Patch) -> None:
    copied.publish(**GOOD)
    for place, name in ((downloads, "download_archive"), (shutil, "copyfileobj")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            assert exit_codes(lambda: downloads.fetch_unlisted(asset())) == [-signal.SIGKILL]
        assert "face.onnx" not in copied.left_over()
        downloads.fetch_unlisted(asset()).unlink()


@pytest.mark.slow
def test_every_listed_asset_can_be_had(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path))
    for name in downloads.list_assets():
        digest = hashlib.sha256(downloads.fetch_asset(name).read_bytes()).hexdigest()
        assert digest == downloads.find_asset(name).sha256
