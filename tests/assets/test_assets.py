"""Assets come out of archives unchanged or not at all; nothing of a package is ever run."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import re
import resource
import signal
import stat
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import python
from masquerade import assets
from masquerade.assets import registry, shelf
from masquerade.assets.shelf import Asset
from masquerade.errors import BadInput

DATA = bytes(range(256)) * 1000
Patch = pytest.MonkeyPatch
FETCH = sys.modules["masquerade.assets.fetch"]  # its name in the package is the function's
PURE = "toy_face-1.0-py3-none-any.whl"


def asset(member: str = "toy/face.onnx", data: bytes = DATA, **changes: str) -> Asset:
    fields = {"name": "face", "registry": "pypi", "package": "Toy.Face", "version": "1.0"}
    fields |= {"archive": "wheel", "licence": "MIT", "about": "A toy.", "member": member}
    return Asset(**(fields | {"sha256": hashlib.sha256(data).hexdigest()} | changes))


def zipped(members: dict[str, bytes], link: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK if name == link else stat.S_IFREG) << 16
            archive.writestr(info, data)
    return stream.getvalue()


def tarred(members: dict[str, bytes], links: dict[str, bytes] | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, kind in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return stream.getvalue()


GOOD = {PURE: zipped({"toy/face.onnx": DATA})}


class World:  # a machine with an index folder, an empty cache, no npm, one setting of pip
    def __init__(self, root: Path) -> None:
        self.index, self.files, self.cache = root / "index", root / "files", root / "cache"
        for folder in (self.index, self.files, root / "bin"):
            folder.mkdir()

    def publish(self, **archives: bytes) -> None:
        page = self.index / "toy-face" / "index.html"
        page.parent.mkdir(exist_ok=True)
        for name, data in archives.items():
            (self.files / name).write_bytes(data)
        anchors = (f'<a href="../../files/{name}#sha256=0">{name}</a>' for name in archives)
        page.write_text("<!DOCTYPE html>" + "<br>".join(anchors))

    def left_over(self) -> list[str]:
        return [path.name for path in self.cache.rglob("*") if path.is_file()]


@pytest.fixture
def no_settings(monkeypatch: Patch) -> None:
    for key in [key for key in os.environ if key.lower().startswith(("pip_", "npm_config_"))]:
        monkeypatch.delenv(key)


@pytest.fixture
def world(tmp_path: Path, no_settings: None, monkeypatch: Patch) -> World:
    made = World(tmp_path)
    monkeypatch.setenv("MASQUERADE_CACHE", str(made.cache))
    monkeypatch.setenv("PIP_INDEX_URL", made.index.as_uri())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(registry, "_pip_files", dict)
    return made


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
    assert len(set(assets.names())) == len(assets.names()) >= 14
    for name in assets.names():
        entry = assets.find(name)
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256) and entry.licence and entry.about
        words = (entry.package, entry.version, entry.licence)
        assert all(word in assets.describe(entry) for word in words)


def test_wrong_entries_and_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean centerface"):
        assets.fetch("centreface")
    wrong = {"registry": "conda", "archive": "tarball", "sha256": "0" * 63, "member": "toy/.."}
    rules = ("choose from pypi, npm", "choose from wheel, sdist", "64 hex digits", "name a file")
    for change, rule in zip(wrong.items(), rules, strict=True):
        with pytest.raises(ValueError, match=rule):
            asset(**dict([change]))


def test_our_sources_name_no_host() -> None:
    host = re.compile(r"\b[a-z0-9-]+\.(org|com|io|net|dev)\b")
    assert host.search("https://index.example.org/simple")
    for path in Path(assets.__file__).parent.glob("*.py"):
        assert not host.search(path.read_text()), path


def test_a_wheel_is_found_whatever_the_spelling(world: World) -> None:
    other = zipped({"toy/face.onnx": b"other"})
    pure, platform = "py3-none-any.whl", "toy_face-1.0-1-cp39-abi3-win_amd64.whl"
    wrong = (f"toy_face-1.0.1-{pure}", f"toy_face_more-1.0-{pure}", "toy_face-1.0.zip", platform)
    world.publish(**dict.fromkeys(wrong, other), **GOOD)
    seen: list[tuple[int, int | None]] = []
    path = assets.take(asset(), progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == DATA
    assert path == world.cache / "assets" / asset().sha256[:16] / "face.onnx"
    assert seen[-1] == (len(GOOD[PURE]),) * 2 and world.left_over() == ["face.onnx"]
    path.unlink()
    world.publish(**{platform: GOOD[PURE]})
    assert assets.take(asset()) == path, "any platform will do where no wheel is for all"


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_the_setup_file_of_an_sdist_is_never_run(world: World, suffix: str) -> None:
    mark = world.files / "mark"
    setup = f"import pathlib; pathlib.Path({str(mark)!r}).touch()"
    members = {"toy_face-1.0/setup.py": setup.encode(), "toy_face-1.0/face.onnx": DATA}
    data = tarred(members) if suffix == ".tar.gz" else zipped(members)
    world.publish(**{f"Toy-Face-1.0{suffix}": data})
    path = assets.take(asset("toy_face-1.0/face.onnx", archive="sdist"))
    assert path.read_bytes() == DATA and not mark.exists()
    python(setup)
    assert mark.exists(), "the trap itself works"


def test_an_npm_tarball_with_a_scope(world: World, server: Server, monkeypatch: Patch) -> None:
    wanted = asset("package/f", registry="npm", package="@toy/face", archive="tarball")
    with pytest.raises(BadInput, match="install npm or set npm_config_registry"):
        assets.take(wanted)
    server.answers["/npm/@toy/face/-/face-1.0.tgz"] = (200, {}, tarred({wanted.member: DATA}))
    monkeypatch.setenv("npm_config_registry", f"http://{server.host}/empty/")
    with pytest.raises(BadInput, match=r"1\.0 \(npm, tarball\) in .*/empty/@toy/face/-/"):
        assets.take(wanted)
    npm = world.files.parent / "bin" / "npm"
    npm.write_text(f"#!/bin/sh\n[ $3 = @toy:registry ] && echo http://{server.host}/npm/\n")
    npm.chmod(0o755)
    assert assets.take(wanted).read_bytes() == DATA


def test_a_wrong_hash_names_both_and_leaves_nothing(world: World) -> None:
    world.publish(**{PURE: zipped({"toy/face.onnx": b"poison"})})
    got = hashlib.sha256(b"poison").hexdigest()
    with pytest.raises(BadInput, match=rf"Toy.Face 1.0 .*{asset().sha256}, got {got}"):
        assets.take(asset())
    assert world.left_over() == []


def test_a_damaged_cache_is_mended(world: World) -> None:
    world.publish(**GOOD)
    for damage in (b"", DATA[:-1], DATA[:-1] + b"x"):
        assets.take(asset()).write_bytes(damage)
        assert assets.take(asset()).read_bytes() == DATA


def test_what_is_cached_needs_neither_network_nor_pip(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    path = assets.take(asset())
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for name in ("_pip_files", "_ask", "_web"):
        monkeypatch.delattr(registry, name)
    assert assets.take(asset()) == path
    path.unlink()
    with pytest.raises(NameError):
        assets.take(asset())


def test_the_files_of_one_archive_come_together(world: World, monkeypatch: Patch) -> None:
    many = [asset(f"toy/{word}", word.encode(), name=word) for word in ("one", "two", "bad")]
    monkeypatch.setattr(shelf, "KNOWN", many)
    world.publish(**{PURE: zipped({"toy/one": b"one", "toy/two": b"two", "toy/bad": b"?"})})
    assert assets.fetch("one").read_bytes() == b"one"
    assert sorted(world.left_over()) == ["one", "two"]
    with pytest.raises(BadInput, match=r"toy/bad of Toy.Face"):
        assets.fetch("bad")


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


def test_two_processes_at_once_both_succeed(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    with monkeypatch.context() as patch, pytest.raises(AttributeError):
        patch.delattr(Path, "replace")  # what is complete gets its final name by this alone
        assets.take(asset())
    assert world.left_over() == []
    content, barrier = FETCH._content, multiprocessing.Barrier(2)  # both have a file open there
    monkeypatch.setattr(FETCH, "_content", lambda *words: [barrier.wait(9), content(*words)][1])
    assert exit_codes(*[lambda: assets.take(asset())] * 2) == [0, 0]
    assert world.left_over() == ["face.onnx"] and assets.take(asset()).read_bytes() == DATA


def test_members_that_are_links_are_refused(world: World) -> None:
    world.publish(**{PURE: zipped({"toy/face.onnx": DATA}, link="toy/face.onnx")})
    with pytest.raises(BadInput, match="a plain file; it is a link"):
        assets.take(asset())
    links = {"a": tarfile.SYMTYPE, "b": tarfile.LNKTYPE, "c": tarfile.DIRTYPE, "d": tarfile.CHRTYPE}
    world.publish(**{"toy-face-1.0.tar.gz": tarred({}, links)})
    for name in links:
        with pytest.raises(BadInput, match="a plain file; it is a link"):
            assets.take(asset(name, archive="sdist"))
    assert world.left_over() == []


def test_a_missing_member_is_named_with_similar_ones(world: World) -> None:
    world.publish(**{PURE: zipped({"src/face.onnx": DATA, "toy/face.py": b""})})
    with pytest.raises(BadInput, match=r"toy/face.onnx in the wheel.*src/face.onnx, toy/face.py"):
        assets.take(asset())
    world.publish(**{"toy-face-1.0.tar.gz": tarred({"top/face.onnx": DATA})})
    with pytest.raises(BadInput, match=r"among its 1. Similar: top/face.onnx"):
        assets.take(asset("face.onnx", archive="sdist"))


def test_archives_that_are_cut_or_too_large_are_refused(world: World, monkeypatch: Patch) -> None:
    noise = hashlib.shake_256(b"").digest(200_000)
    whole = zipped({"toy/face.onnx": noise})
    for data in (whole[:-100], whole[:60], b"<html>", b""):
        world.publish(**{PURE: data})
        with pytest.raises(BadInput, match=r"a whole wheel of Toy.Face"):
            assets.take(asset(data=noise))
    world.publish(**{"toy-face-1.0.tar.gz": tarred({"face.onnx": noise})[:-5000]})
    with pytest.raises(BadInput, match=r"a whole sdist of Toy.Face"):
        assets.take(asset("face.onnx", noise, archive="sdist"))
    world.publish(**{PURE: whole})
    monkeypatch.setattr(FETCH, "MEMBER_LIMIT", 1000)
    with pytest.raises(BadInput, match=r"at most 1000 bytes in toy/face.onnx"):
        assets.take(asset(data=noise))
    monkeypatch.setattr(registry, "ARCHIVE_LIMIT", 1000)
    with pytest.raises(BadInput, match="at most 1000 bytes at file:"):
        assets.take(asset(data=noise))
    assert world.left_over() == []


def test_the_cache_stands_where_the_environment_says(monkeypatch: Patch) -> None:
    for key, value in (("MASQUERADE_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")):
        monkeypatch.setenv(key, value)
    assert assets.cache_folder() == Path("/a")
    monkeypatch.setenv("MASQUERADE_CACHE", "")
    assert assets.cache_folder() == Path("/b/masquerade")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert assets.cache_folder() == Path("/c/.cache/masquerade")


def test_no_room_and_no_folder_are_said(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)

    def squeezed() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        assets.take(asset())

    assert exit_codes(squeezed) == [7] and world.left_over() == []
    monkeypatch.setenv("MASQUERADE_CACHE", str(world.files / PURE))
    with pytest.raises(OSError, match="set MASQUERADE_CACHE to another folder"):
        assets.take(asset())


def test_a_folder_of_archives_serves_without_an_index(world: World, monkeypatch: Patch) -> None:
    world.publish(**GOOD)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BadInput, match="it is not there"):
        assets.take(asset())
    for place in (world.files, (world.files / PURE).as_uri(), world.index / "toy-face/index.html"):
        monkeypatch.setenv("PIP_FIND_LINKS", f"{world.cache} {place}")
        assets.take(asset()).unlink()


def test_a_json_index_behind_a_login(world: World, server: Server, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:s%40cret@{server.host}/simple/")
    kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    files = {"files": [{"url": f"http://{server.host}/{PURE}"}]}
    server.answers["/simple/toy-face/"] = (200, kind, json.dumps(files).encode())
    elsewhere = f"http://{server.host.replace('127.0.0.1', 'localhost')}/moved"
    server.answers[f"/{PURE}"] = (302, {"Location": elsewhere}, b"")
    server.answers["/moved"] = (200, {}, GOOD[PURE])
    assert assets.take(asset()).read_bytes() == DATA
    login = "Basic bWU6c0BjcmV0"
    assert server.asked == [("/simple/toy-face/", login), (f"/{PURE}", login), ("/moved", None)]


def test_trouble_is_said_without_a_login(world: World, server: Server, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{server.host}/simple")
    world.publish(**GOOD)
    html, page = {"Content-Type": "text/html"}, f'<a href="/{PURE}">x</a>'.encode()
    local = f'<a href="{(world.files / PURE).as_uri()}">x</a>'.encode()
    for answer, archive, message in (
        ((403, html, b""), b"", "HTTP 403"),
        ((200, {"Content-Type": "a/json"}, b"[1]"), b"", "not a page of an index"),
        ((200, html, page), b"short", "cut off after 5 of 9999 bytes"),
        ((200, html, b""), b"", "it is not there"),
        ((200, html, local), b"", "it is not there"),
    ):
        server.answers["/simple/toy-face/"] = answer
        server.answers[f"/{PURE}"] = (200, {"Content-Length": "9999"}, archive)
        with pytest.raises((ConnectionError, BadInput), match=message) as error:
            assets.take(asset())
        assert "secret" not in str(error.value)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ConnectionError, match=r"127.0.0.1:9/simple/toy-face/.*Check the network"):
        assets.take(asset())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", str(world.index))
    assert assets.take(asset()).read_bytes() == DATA


@pytest.mark.usefixtures("no_settings")
def test_pip_itself_says_where_to_look(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://a.test/x\nextra-index-url =\n  https://b.test\n  c\n"
        "find-links = from-file\n[download]\ncert = mine.pem\n[install]\nno-index = true\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "from-env")
    settings = registry._pip_settings()
    assert settings["index-url"] == "https://a.test/x" and "no-index" not in settings
    assert settings["extra-index-url"].split() == ["https://b.test", "c"]
    assert (settings["find-links"], settings["cert"]) == ("from-env", "mine.pem")
    monkeypatch.setenv("PIP_INDEX_URL", "https://a.test/simple")
    assert re.fullmatch(r"https://(?!a\.test)\S+/simple/?", registry._default_index())


@pytest.mark.slow
def test_every_listed_asset_can_be_had(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("MASQUERADE_CACHE", str(tmp_path))
    for name in assets.names():
        digest = hashlib.sha256(assets.fetch(name).read_bytes()).hexdigest()
        assert digest == assets.find(name).sha256
