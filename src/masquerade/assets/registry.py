"""Find an archive in the registries that the user's pip and npm are set up for; download it.

pip is asked for its settings and for nothing else: to download an sdist it would run the
package's ``setup.py``. Archives are found by the links of the index's own pages instead, for
wheels and sdists alike. Of several wheels of one version any may serve, whatever its platform:
what is taken from it is data, and its SHA-256 decides.
"""

from __future__ import annotations

import ast
import base64
import http.client
import importlib.util
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import (
    BaseHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
    url2pathname,
)

from masquerade.assets.shelf import Asset
from masquerade.errors import BadInput

Progress = Callable[[int, int | None], None]

ARCHIVE_LIMIT = 4 * 2**30
_PAGE_LIMIT = 64 * 2**20
_CHUNK = 2**18
_SDIST = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5, */*;q=0.1"


def download(asset: Asset, stream: IO[bytes], *, progress: Progress | None = None) -> None:
    """Write the archive that holds ``asset`` to ``stream``, from the first place that has it.

    Folders of this machine are looked at first. Nothing is verified here.

    Args:
        asset: what is wanted.
        stream: seekable; it is emptied first.
        progress: called with the bytes so far and the total, if the server says it.

    Raises:
        BadInput: if no place has that version, or nobody says where to look.
        ConnectionError: if it was not found and a place could not be reached.
    """
    settings = _pip_settings()
    web = _web(settings)
    looked: list[str] = []
    problems: list[str] = []
    for place in _npm_places(asset) if asset.registry == "npm" else _pip_places(asset, settings):
        looked.append(shown(place))
        try:
            url = place if asset.registry == "npm" else _pick(asset, _links(web, place))
            if url is not None:
                _save(web, url, stream, progress=progress)
                return
        except FileNotFoundError:
            continue
        except ConnectionError as error:
            problems.append(str(error))
    raise _not_found(asset, looked, problems)


def _not_found(asset: Asset, looked: Sequence[str], problems: Sequence[str]) -> Exception:
    what = f"{asset.package} {asset.version} ({asset.registry}, {asset.archive})"
    tool = "npm" if asset.registry == "npm" else "pip"
    if problems:
        hint = " Set PIP_CERT to your certificates." * ("CERTIFICATE" in " ".join(problems))
        return ConnectionError(
            f"Expected to download {what}, got {'; '.join(problems)}. Check the network and the "
            f"registry that {tool} is set up for, then try again.{hint}"
        )
    return BadInput(
        f"Expected {what} in {', '.join(looked) or 'an index'}; it is not there. "
        f"Set {tool} up for a registry that has it."
    )


def shown(url: str) -> str:
    """``url`` as it may be printed: without login, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _pip_settings() -> dict[str, str]:
    """What pip is set up for: its environment wins over its files, as in pip itself."""
    settings = _pip_files()
    for key, value in os.environ.items():
        if key.startswith("PIP_") and value:
            settings[key[4:].lower().replace("_", "-")] = value
    return settings


def _pip_files() -> dict[str, str]:
    """Settings of pip's configuration files; those of ``download`` win over the global ones."""
    if not _has_pip():
        return {}
    done = _ask([sys.executable, "-P", "-m", "pip", "config", "list"])
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it fails"]
        raise BadInput(f"Expected pip to list its settings, got: {lines[-1]}; mend pip's file.")
    settings: dict[str, str] = {}
    for section in ("global.", "download."):
        for line in done.stdout.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(section) and value[:1] in ("'", '"'):
                text = str(ast.literal_eval(value)).strip()
                settings |= {key.removeprefix(section): text} if text else {}
    return settings


def _default_index() -> str:
    """The index that pip uses when none is set, from its own help; no setting may colour it."""
    if _has_pip():
        clean = os.environ | {"PIP_CONFIG_FILE": os.devnull, "COLUMNS": "1000"}
        command = [sys.executable, "-P", "-m", "pip", "--isolated", "download", "--help"]
        found = re.search(r"--index-url\b.*?\(default:?\s+(\S+?)\)", _ask(command, clean).stdout)
        if found:
            return found[1]
    raise BadInput(
        "Expected pip to name its package index, got none; run python -m ensurepip, "
        "or set PIP_INDEX_URL."
    )


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


def _pip_places(asset: Asset, settings: Mapping[str, str]) -> Iterator[str]:
    page = "/" + _normal(asset.package) + "/"
    places = [_as_url(place) for place in settings.get("find-links", "").split()]
    is_index_used = settings.get("no-index", "").lower() not in ("1", "true", "yes", "on", "y", "t")
    if is_index_used:
        for key in ("index-url", "extra-index-url"):
            places += [_as_url(url).rstrip("/") + page for url in settings.get(key, "").split()]
    yield from sorted(places, key=lambda place: not place.startswith("file:"))
    if is_index_used and "index-url" not in settings:
        yield _default_index().rstrip("/") + page


def _npm_places(asset: Asset) -> Iterator[str]:
    scope, slash, base = asset.package.rpartition("/")
    registry = ""
    npm = shutil.which("npm")
    for key in ([f"{scope}:registry"] if slash else []) + ["registry"]:
        if npm and not registry:
            answer = _ask([npm, "config", "get", key]).stdout.strip()
            registry = answer if "://" in answer else ""
    names = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
    registry = registry or next(filter(None, map(os.environ.get, names)), "")
    if not registry:
        raise BadInput(
            f"Expected a registry for {asset.package}, got none; install npm or set "
            "npm_config_registry."
        )
    yield f"{registry.rstrip('/')}/{asset.package}/-/{base}-{asset.version}.tgz"


def _ask(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    nothing = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, env=env, stdin=nothing, capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"Expected an answer from {' '.join(command)}; it hangs.") from error


def _as_url(place: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", place):  # two letters or more: not a drive
        return place
    return Path(place).expanduser().absolute().as_uri()


def _links(web: _Web, place: str) -> list[str]:
    """Links of a folder, of an archive's own address, or of an index page in HTML or JSON."""
    if _file_name(place).endswith((".whl", *_SDIST)):
        return [place]
    if urlsplit(place).scheme == "file":
        path = Path(url2pathname(urlsplit(place).path))
        try:
            entries = sorted(path.iterdir()) if path.is_dir() else []
        except OSError as error:
            raise ConnectionError(f"{shown(place)}: {error.strerror}") from error
        if entries:
            index = path / "index.html"
            links = _links(web, index.as_uri()) if index in entries else []
            return [entry.as_uri() for entry in entries] + links
    with web.open(place) as page:
        text = b"".join(_chunks(page, place, limit=_PAGE_LIMIT)).decode("utf-8", "replace")
        base, is_json = page.geturl(), page.headers.get_content_type().endswith("json")
    if is_json:
        try:
            links = [urljoin(base, str(entry["url"])) for entry in json.loads(text)["files"]]
        except (ValueError, TypeError, KeyError) as error:
            raise ConnectionError(f"{shown(place)}: not a page of an index") from error
    else:
        anchors = _Anchors(base)
        anchors.feed(text)
        links = anchors.links
    schemes = ("file",) if base.startswith("file:") else ()  # the web may not point into our files
    return [
        _with_login(url, place)
        for url in links
        if urlsplit(url).scheme in ("http", "https", *schemes)
    ]


class _Anchors(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "base" and href:
            self.base = urljoin(self.base, href)
        elif tag == "a" and href:
            self.links.append(urljoin(self.base, href))


def _with_login(url: str, place: str) -> str:
    """``url`` with the login of ``place``, if it is on the same host and has none."""
    login, at, host = urlsplit(place).netloc.rpartition("@")
    parts = urlsplit(url)
    if at and parts.netloc == host and parts.scheme == urlsplit(place).scheme:
        return urlunsplit(parts._replace(netloc=f"{login}@{host}"))
    return url


def _pick(asset: Asset, links: Sequence[str]) -> str | None:
    """The link to the asset's archive; among wheels, one for every platform if there is one."""
    fits = [url for url in links if _fits(asset, _file_name(url))]
    return min(
        fits,
        key=lambda url: (not _file_name(url).endswith("-none-any.whl"), _file_name(url)),
        default=None,
    )


def _fits(asset: Asset, file_name: str) -> bool:
    if asset.archive == "wheel":
        name, _, rest = file_name.partition("-")
        version = rest.partition("-")[0] if file_name.endswith(".whl") else ""
    else:
        suffix = next((end for end in _SDIST if file_name.endswith(end)), None)
        if suffix is None:
            return False
        name, _, version = file_name.removesuffix(suffix).rpartition("-")
    return version == asset.version and _normal(name) == _normal(asset.package)


def _file_name(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, kw_only=True)
class _Web:
    opener: OpenerDirector
    timeout_s: float

    def open(self, url: str) -> Any:  # urllib's answers share no type
        """An answer to read and close; FileNotFoundError if the place is empty."""
        login, at, host = urlsplit(url).netloc.rpartition("@")
        bare = urlunsplit(urlsplit(url)._replace(netloc=host, fragment=""))
        try:
            request = Request(bare, headers={"Accept": _ACCEPT, "User-Agent": "masquerade"})
            if at:  # it does not follow a redirection to somebody else
                token = base64.b64encode(unquote(login).encode()).decode()
                request.add_unredirected_header("Authorization", f"Basic {token}")
            return self.opener.open(request, timeout=self.timeout_s)
        except HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(shown(url)) from error
            raise ConnectionError(f"{shown(url)}: HTTP {error.code} {error.reason}") from error
        except URLError as error:
            if isinstance(error.reason, FileNotFoundError):
                raise FileNotFoundError(shown(url)) from error
            raise ConnectionError(f"{shown(url)}: {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ConnectionError(f"{shown(url)}: {error}") from error


def _web(settings: Mapping[str, str]) -> _Web:
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # pip minds these after its own setting
    cert = settings.get("cert") or next(filter(None, map(os.environ.get, names)), None)
    try:
        is_folder = cert is not None and Path(cert).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else cert, capath=cert if is_folder else None
        )
    except OSError as error:
        raise BadInput(
            f"Expected certificates at {cert}, got {error}; set PIP_CERT to a good file."
        ) from error
    handlers: list[BaseHandler] = [HTTPSHandler(context=context)]
    if proxy := settings.get("proxy"):
        handlers.append(ProxyHandler({"http": proxy, "https": proxy}))
    seconds = settings.get("timeout") or settings.get("default-timeout") or ""
    timeout_s = float(seconds) if re.fullmatch(r"\d+(\.\d+)?", seconds) else 60.0
    return _Web(opener=build_opener(*handlers), timeout_s=timeout_s or 60.0)


def _chunks(answer: Any, url: str, *, limit: int) -> Iterator[bytes]:
    """The body of an answer in pieces, to its stated end."""
    length = str(answer.headers.get("Content-Length", ""))
    done = 0
    while True:
        try:
            chunk: bytes = answer.read(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"{shown(url)}: {error}") from error
        if not chunk:
            break
        done += len(chunk)
        if done > limit:
            raise BadInput(f"Expected at most {limit} bytes at {shown(url)}, got more.")
        yield chunk
    if length.isdigit() and done != int(length):
        raise ConnectionError(f"{shown(url)}: cut off after {done} of {length} bytes")


def _save(web: _Web, url: str, stream: IO[bytes], *, progress: Progress | None) -> None:
    stream.seek(0)
    stream.truncate()
    with web.open(url) as answer:
        length = str(answer.headers.get("Content-Length", ""))
        total = int(length) if length.isdigit() else None
        for chunk in _chunks(answer, url, limit=ARCHIVE_LIMIT):
            stream.write(chunk)
            if progress is not None:
                progress(stream.tell(), total)
    stream.seek(0)
