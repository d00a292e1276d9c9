"""The docs page of pictures: what every mechanism leaves of a person who never lived."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run from a checkout
from experiments.engine import Progress, hide_progress, show_progress
from experiments.pages import write_table
from masquerade import catalog
from masquerade._formatting import format_rounded_up as rounded
from masquerade.demo import films
from masquerade.demo.films import ZOOM
from masquerade.errors import BadInput, MissingExtra
from masquerade.guarantee import Guarantee
from masquerade.io import atomic
from masquerade.mechanism import Mechanism
from masquerade.mechanisms.expected_view import ExpectedView, predict_view
from masquerade.progress import show_spinner
from masquerade.publish import collections
from masquerade.publish.recording import make_mechanism, release_value
from masquerade.quality import picture
from masquerade.quality.picture import PictureQuality
from masquerade.recordings import Video
from masquerade.result import CommandResult
from masquerade.wording import explain
from tools import run_tool

_BUDGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4}
_SMALL = _BUDGET | {"unit": "pixels", "pixels": 16}
_THREE = {
    "16 pixels": _SMALL,
    "256 pixels": _SMALL | {"pixels": 256},
    "one frame": _BUDGET | {"unit": "frame"},
}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "cosine_gaussian": _THREE,
    "gaussian_noise": {"16 pixels": _SMALL},
    "learned_filter": {"soften": {"network": "soften"}},
    "pooled_gaussian": _THREE,
    "ppedcrf": {"sigma 24": {"sigma": 24.0, "shape": "white", "unary": "evidence"}},
    "video_dprp": {
        "orthonormal": _SMALL | {"form": "orthonormal"},
        "gaussian": _SMALL | {"form": "gaussian"},
        "truncated": _SMALL | {"form": "truncated"},
        "as published": _BUDGET | {"unit": "frame", "form": "as_published"},
    },
}
_DEFAULTS: dict[str, dict[str, Any]] = {"defaults": {}}
_NEAR = ("face_blur", "selective_privacy")  # those that are shown on the portrait
_COLUMNS = ("mechanism", "setting", "guarantee", "PSNR", "SSIM")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One picture of the gallery.

    Args:
        name: the mechanism's.
        label: the setting in a word or two.
        fields: the mechanism's fields; those left out have their defaults.
    """

    name: str
    label: str
    fields: dict[str, Any]

    @property
    def file(self) -> str:
        """Name of the picture."""
        return f"{self.name}-{self.label.replace(' ', '_')}.png"

    @property
    def source(self) -> str:
        """Name of the video that it is shown on."""
        return "portrait" if self.name in _NEAR else "clip"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An entry and what became of it.

    Args:
        entry: what was asked for.
        mechanism: as it was run; None if it could not be.
        guarantee: what it promises for this video.
        quality: what is left of the picture.
        sight: what was to be expected of it.
        why_not: why it could not be run.
    """

    entry: Entry
    mechanism: Mechanism | None = None
    guarantee: Guarantee | None = None
    quality: PictureQuality | None = None
    sight: ExpectedView | None = None
    why_not: str = ""


def entries() -> list[Entry]:
    """All pictures of the page: every mechanism, some in several settings."""
    found = []
    for name in catalog.list_entries("mechanisms"):
        usual = _DEFAULTS if _is_heuristic(name) else {"16 pixels": _SMALL}
        for label, fields in SETTINGS.get(name, usual).items():
            found.append(Entry(name=name, label=label, fields=fields))
    return found


def _is_heuristic(name: str) -> bool:
    return catalog.is_a("mechanisms", name, "Heuristic")


def show(entry: Entry, video: Video, folder: Path) -> Shown:
    """Release the video and write the picture, unless what it takes is missing here."""
    try:
        mechanism = make_mechanism(entry.name, **entry.fields)
        done = release_value(video, mechanism)
    except (MissingExtra, OSError, BadInput) as error:
        return Shown(entry=entry, why_not=str(error))
    released = done.value
    assert isinstance(released, Video)
    middle = len(video.frames) // 2
    data = films.join_frames(video.frames[middle], released.frames[middle])
    atomic.write_whole(folder / entry.file, data)
    return Shown(
        entry=entry,
        mechanism=mechanism,
        guarantee=done.receipt.guarantee,
        quality=picture.measure(video.frames, released.frames),
        sight=predict_view(
            mechanism.plan(video.frames.shape), (video.frames.shape,), is_video=True
        ),
    )


def command(shown: Shown) -> str:
    """The line that does the same in a shell."""
    name, source = shown.entry.name, shown.entry.source
    words = [f"masquerade release {source}.mp4 released.mp4 --mechanism {name}"]
    for key, value in shown.entry.fields.items():
        words.append(f"--{key} {value:g}" if isinstance(value, float) else f"--{key} {value}")
    words += ["--yes"] * (shown.sight is ExpectedView.GREY)
    return " ".join(words)


def markdown(all_shown: list[Shown], folder: str, *, before: str = "") -> str:
    """The docs page; what attackers found in a setting stays from the page before."""
    rows = [_row(shown) for shown in all_shown if shown.quality is not None]
    parts, kept = [_LEAD, write_table(_COLUMNS, rows)], attacked(before)
    for name, group in itertools.groupby(all_shown, lambda shown: shown.entry.name):
        settings = list(group)
        parts += [f"## {name}", *_about(settings[0])]
        for shown in settings:
            parts += [f"### {name}: {shown.entry.label}"] * (len(settings) > 1)
            parts += _section(shown, folder, kept)
    return "\n\n".join(parts) + "\n"


def attacked(page: str) -> dict[str, str]:
    """The lines that benchmarks/attacks.py put below pictures, by the picture's file.

    Example:
        >>> attacked("![a](b/c.png)\\n\\nPSNR 9.\\n\\nAttackers on Stage find: nothing.")
        {'c.png': 'Attackers on Stage find: nothing.'}
    """
    found, now = {}, ""
    for line in page.splitlines():
        if line.startswith("!["):
            now = line.rpartition("/")[2].rstrip(")")
        elif line.startswith(_ATTACKED):
            found[now] = line
    return found


_ATTACKED = "Attackers on Stage"
_LEAD = f"""# Gallery: what each mechanism leaves of a picture

**The person in these pictures was generated and never lived**, nor did the room ever stand; of a
real recording the left halves would be private. `python tools/gallery.py` writes this page.

Left the original, right what is released: the middle frame, enlarged {ZOOM} times, with fewer
colours so that the page is small. PSNR (in dB) and SSIM compare the whole videos with all colours;
higher is closer to the original. They say what is left to see, not what is protected: only a
guarantee says that. Below each picture stands how often attackers name the right person or place
first, on films of Stage that were released in the same way, beside what they get of the originals
(raw) and of nothing (random); `benchmarks/attacks.py` measures it, and [all
figures](attacks/mechanisms.md) have a page. The noise is live, so every run differs a little. Get
the two videos with

```sh
python -c "from masquerade.demo.films import *; write_clip('clip.mp4')"
python -c "from masquerade.demo.films import *; write_clip('portrait.mp4', make_portrait())"
```"""

_LEFT_OUT = (
    "Left out when this page was written: what it needs was not installed or could not be fetched."
)


def _row(shown: Shown) -> tuple[str, ...]:
    assert shown.guarantee is not None and shown.quality is not None
    guarantee, quality = shown.guarantee, shown.quality
    promised = "none: a heuristic"
    if guarantee.epsilon is not None:
        sites = guarantee.unit.sites
        touched = f"one {guarantee.unit}" if sites is None else f"{sites} {guarantee.unit.name}"
        promised = f"epsilon {rounded(guarantee.epsilon)} for {touched}"
        promised += ", and not what is claimed" * (guarantee.published_claim is not None)
    name = f"[{shown.entry.name}](#{shown.entry.name})"
    return name, shown.entry.label, promised, f"{quality.psnr:.1f}", f"{quality.ssim:.2f}"


def _about(shown: Shown) -> list[str]:
    if shown.mechanism is None:
        return []
    said = (type(shown.mechanism).__doc__ or "").strip().splitlines()[0]
    return ["*A heuristic.* " * _is_heuristic(shown.entry.name) + said]


def _section(shown: Shown, folder: str, kept: Mapping[str, str]) -> list[str]:
    entry, guarantee, quality = shown.entry, shown.guarantee, shown.quality
    if guarantee is None or quality is None:
        return [_LEFT_OUT]
    said = explain(guarantee)[:2]
    if guarantee.published_claim is not None:
        said.insert(0, f"{guarantee.published_claim}.")
    return [
        f"![before and after {entry.name}, {entry.label}]({folder}/{entry.file})",
        " ".join(said),
        f"PSNR {quality.psnr:.1f} dB, SSIM {quality.ssim:.2f}.",
        *([kept[entry.file]] if entry.file in kept else []),
        f"```sh\n{command(shown)}\n```",
    ]


def build(folder: Path, progress: Progress = hide_progress) -> list[Shown]:
    """Write every picture into a folder."""
    videos = {"clip": films.make_clip(), "portrait": films.make_portrait()}
    found: list[Shown] = []
    for entry in entries():
        found.append(show(entry, videos[entry.source], folder))
        progress("gallery", len(found), len(entries()))
    return found


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Release a generated person by every mechanism; write before and after, and the docs page.

    The pictures of Stage that stand in the docs are written as well.

    Args:
        out: folder of the pictures; the page stands beside it, with .md behind its name.
        stage: folder of Stage's own pictures; they are not written where there is none.
    """

    out: Path = Path("docs/gallery")
    stage: Path | None = Path("docs/stage")

    def run(self) -> CommandResult:
        """Write pictures and page."""
        self.out.mkdir(parents=True, exist_ok=True)
        page = self.out.with_name(f"{self.out.name}.md")
        with show_progress() as progress:
            found = build(self.out, progress)
        before = page.read_text(encoding="utf-8") if page.is_file() else ""
        atomic.write_whole(page, markdown(found, self.out.name, before=before).encode())
        stage = write_stage(self.stage) if self.stage is not None else []
        missing = {shown.entry.file: shown.why_not for shown in found if shown.quality is None}
        return CommandResult(
            data={"page": str(page), "pictures": len(found) - len(missing), "left_out": missing},
            lines=[
                f"Wrote {page} and {len(found) - len(missing)} pictures.",
                *(f"Wrote {path}" for path in stage),
                *(f"Left out {name}: {why}" for name, why in missing.items()),
            ],
        )


def write_stage(folder: Path) -> list[Path]:
    """Draw the pictures of Stage that stand in the docs, and a film."""
    folder.mkdir(parents=True, exist_ok=True)
    with show_spinner("drawing people", seconds=30):
        files = {name: text.encode() for name, text in films.draw_sheets().items()}
        shown = [films.make_clip(index) for index in collections.pick_recordings(films.FILM, 12)]
        files["film.mp4"] = collections.encode_film(shown)
    for name, data in files.items():
        atomic.write_whole(folder / name, data)
    return [folder / name for name in files]


if __name__ == "__main__":
    run_tool(Gallery)
