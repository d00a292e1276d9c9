"""The demo's films: a clip released in six ways, its place hidden, its person redrawn.

Each with claim and evidence, quality and time, and what an attacker still tells.

Stage in pictures: its clip and sheets, and frames side by side, as docs and demo show them.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _formatting
from masquerade.audits.game import Claim, MechanismGame
from masquerade.audits.paper_games import VideoDprpValue
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.demo.steps import (
    AUDIT_CONFIDENCE,
    Chapter,
    DemoSystem,
    Progress,
    compare_rates,
    hide_progress,
)
from masquerade.io import atomic
from masquerade.io.video import read
from masquerade.io.video import write as writer
from masquerade.mechanism import Heuristic, Mechanism
from masquerade.places.ppedcrf import Ppedcrf
from masquerade.publish import collections, pages
from masquerade.publish.attack import attack_mechanism, make_attack
from masquerade.publish.audits import audit_game
from masquerade.publish.evaluation import measure_files
from masquerade.publish.recording import FileSettings, make_mechanism, release_file
from masquerade.publish.spine import IfExists
from masquerade.quality.picture import PictureQuality
from masquerade.receipt import Receipt
from masquerade.recordings import Video
from masquerade.report import media, page, release_sections, sheet
from masquerade.scores import AttackResult, Evidence
from masquerade.wording import explain

FILM = Stage(height=120, width=160, frames=64, rate_hz=25.0, bystanders=0.0)
_SHEET_STAGE = Stage(height=96, width=96, split="test")
_PHOTO_STAGE = Stage(kind=Medium.PHOTOS, split="test", joints="coco")
_JUMPER_INDEX = 2  # someone who jumps
ZOOM, _GAP = 2, 4
_STEPS, _OWN_STEP = (4, 8, 16, 32, 64), 8  # colours are rounded until a file is small
STRIP_NAME = "strip.png"
FILM_NAMES = (
    "clip.private.mp4",
    "clip-cosine-16-sites.mp4",
    "clip-avatar.mp4",
    "clip-place-hidden.mp4",
)
_MAX_STRIP_BYTES = 290_000  # of the strip, which stands in the README
_SHOWN_FRAME = 32  # its frame


def make_clip(index: int = 0) -> Video:
    """A short video of somebody who never lived."""
    made = FILM[index]
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return made


def make_portrait(subject: int = 1) -> Video:
    """Another one from near by."""
    return FILM.render_portrait(subject)


def write_clip(path: Path | str, video: Video | None = None) -> Path:
    """Write the clip, or another video, to a file such as ``clip.mp4``; give back its path."""
    video, path = video or make_clip(), Path(path)
    rate = Fraction(video.rate_hz).limit_denominator(1001)
    with atomic.open_unfinished(path) as part:
        writer.write_video(part.stream, iter(video.frames), suffix=path.suffix, rate=rate)
        part.seal_file()
        part.move_into_place()
    return path


def draw_sheets() -> dict[str, str]:
    """The sheets, as SVG text by file name."""
    chosen = [_SHEET_STAGE[index] for index in collections.pick_recordings(_SHEET_STAGE, 12)]
    photos = [_PHOTO_STAGE[index] for index in range(16)]
    return {
        "sheet.svg": collections.video_sheet(chosen),  # type: ignore[arg-type]
        "photos.svg": collections.photo_sheet(photos, _PHOTO_STAGE.joint_names),  # type: ignore[arg-type]
        "together.svg": collections.draw_together(_SHEET_STAGE, _JUMPER_INDEX),
    }


def write_sections(drawn: dict[str, str]) -> list[page.Section]:
    """Stage on the page: nobody in it ever lived, so it can be shown to all."""
    words = {
        "together.svg": "One video, its person mask, its joints, and what an accelerometer at the "
        "wrist would have read (m/s2).",
        "sheet.svg": "The activities, done by people of the test split at places drawn by chance.",
    }
    body = page.format_paragraphs(
        ["Bodies, motion, places and sensors are generated; every label is exact."]
    )
    for name, said in words.items():
        body += page.format_paragraphs([said]) + page.format_figure(drawn[name])
    return [
        page.Section(title="Stage: people who never lived", body=body, part=page.PagePart.APPENDIX)
    ]


def make_stage_chapter(folder: Path) -> Chapter:
    """Stage's pictures, also as files."""
    drawn = draw_sheets()
    for name, text in drawn.items():
        atomic.write_whole(folder / f"stage-{name}", text.encode())
    return Chapter(sections=write_sections(drawn))


def join_frames(before: np.ndarray, *after: np.ndarray, max_bytes: int = 60_000) -> bytes:
    """A small PNG of frames of one size, enlarged, with white gaps between them."""
    gap = np.full((len(before), _GAP // ZOOM, 3), 255, np.uint8)
    for step in _STEPS:  # noise takes the room, and does not show that it was rounded
        row = [_round_colours(before, min(step, _OWN_STEP))]
        for one in after:
            row += [gap, _round_colours(one, step)]
        large = np.concatenate(row, axis=1).repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
        stream = io.BytesIO()
        writer.write_video(stream, [large], suffix=".png", rate=Fraction(1))
        if stream.tell() <= max_bytes:
            break
    return stream.getvalue()


def _round_colours(frame: np.ndarray, step: int) -> np.ndarray:
    return np.asarray(np.minimum(np.rint(frame / step) * step, 255)).astype(np.uint8)


def write_strip(folder: Path) -> Path:
    """Draw the same frame of every film that stands in a folder, side by side."""
    films = [folder / name for name in FILM_NAMES if (folder / name).is_file()]
    frames = [read.read_segment(path, _SHOWN_FRAME, _SHOWN_FRAME + 1)[0] for path in films]
    atomic.write_whole(folder / STRIP_NAME, join_frames(*frames, max_bytes=_MAX_STRIP_BYTES))
    return folder / STRIP_NAME


HEADING = ("release", "guarantee", "evidence: at least", "PSNR dB", "SSIM", "seconds")
_NUM_TRIALS = 1500
_TARGET_FIELDS: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4}
_MAIN_RELEASE = "cosine-16-sites"  # the release that stands in the one table
# a sixth of them are published; of each the attacker holds other films
KNOWN = Stage(seed=1, height=96, width=96, subjects=72, videos=432)


def make_mechanisms() -> dict[str, Mechanism]:
    """The releases, by the name of their file."""
    sites: dict[str, Any] = {**_TARGET_FIELDS, "unit": "pixels", "pixels": 16}
    return {
        "as-published": make_mechanism(
            "video_dprp", form="as_published", unit="frame", **_TARGET_FIELDS
        ),
        "orthonormal": make_mechanism("video_dprp", **sites),
        "pooled": make_mechanism("pooled_gaussian", **sites),
        "cosine-16-sites": make_mechanism("cosine_gaussian", **sites),
        "cosine-frame": make_mechanism("cosine_gaussian", unit="frame", **_TARGET_FIELDS),
        "appearance-free": make_mechanism("appearance_free"),
    }


@dataclass(frozen=True, kw_only=True)
class ReleasedClip:
    """One release and all that is known about it."""

    name: str
    path: Path
    receipt: Receipt
    quality: PictureQuality
    seconds: float
    played: tuple[Claim, Evidence] | None


def make_clip_chapter(folder: Path, progress: Progress = hide_progress) -> Chapter:
    """Release the clip in every way; the original stays beside, marked private."""
    original = write_clip(folder / "clip.private.mp4")
    found: list[ReleasedClip] = []
    for name, mechanism in make_mechanisms().items():
        found.append(_release_clip(name, mechanism, original))
        progress("releasing a video", len(found), len(make_mechanisms()))
    main = next(shown for shown in found if shown.name == _MAIN_RELEASE)
    attacked = _attack_clip(main, progress)
    frontier = pages.make_frontier_section(main.receipt)
    return Chapter(
        sections=[
            _write_first(main, original),
            _write_others(found),
            release_sections.write_attack_section("reidentify", [attacked]),
            *([frontier] if frontier is not None else []),
            release_sections.make_receipts_section(
                [(shown.path.name, shown.receipt) for shown in found]
            ),
        ],
        systems=[_describe_system(main, attacked)],
        data={"videos": {shown.name: str(shown.path) for shown in found}},
    )


def _write_first(shown: ReleasedClip, original: Path) -> page.Section:
    """The release that the page begins with, beside what it was."""
    pictures = media.draw_side_by_side([("Before (made up)", original), ("Published", shown.path)])
    unit = media.draw_unit_on_frame(shown.receipt.guarantee.unit, shown.path)
    section = release_sections.write_release_section(
        "A film of somebody who never lived",
        shown.receipt,
        pictures=pictures,
        unit=unit,
        is_film=True,
    )
    return replace(section, has_originals=True)


def _write_others(found: list[ReleasedClip]) -> page.Section:
    """All ways beside each other, with claim, evidence and quality."""
    films = media.draw_side_by_side([(shown.name, shown.path) for shown in found])
    table = page.format_table(
        HEADING, [list_cells(shown) for shown in found], says="The film in several ways"
    )
    exact = "".join(
        page.fold_body(f"{shown.name}, exactly", _write_exactly(shown)) for shown in found
    )
    body = films + table + exact
    return page.Section(title="The same film, in several ways", body=body, has_originals=True)


def _attack_clip(shown: ReleasedClip, progress: Progress) -> AttackResult:
    """Whether people are told by clothes, hair and build, where labels say where to look."""
    attack = make_attack("reidentify", by="body", joints="truth")
    (found,) = attack_mechanism(attack, make_mechanisms()[shown.name], KNOWN, progress=progress)
    return found


def _describe_system(shown: ReleasedClip, attacked: AttackResult) -> DemoSystem:
    guarantee, proved = shown.receipt.guarantee, "none"
    if guarantee.epsilon is not None:
        proved = f"{_formatting.format_rounded_up(guarantee.epsilon)}, delta {guarantee.delta:g}"
    return DemoSystem(
        name="Video-DPRP's task: a film, by cosine_gaussian",
        protects=f"any {guarantee.unit.sites} pixels of a film; its blur alone hides people",
        epsilon=proved,
        good_for=f"a film at {shown.quality.psnr:.1f} dB beside the original",
        attack=compare_rates(attacked.ceiling[0], attacked.published[0]),
    )


def _release_clip(name: str, mechanism: Mechanism, original: Path) -> ReleasedClip:
    target, start = original.with_name(f"clip-{name}.mp4"), time.perf_counter()
    again = FileSettings(if_standing=IfExists.OVERWRITE, accept_grey=True)  # to compare with
    done = release_file(original, target, mechanism, options=again)
    return ReleasedClip(
        name=name,
        path=target,
        receipt=done.receipt,
        seconds=time.perf_counter() - start,
        quality=measure_files(original, target, every=4),
        played=_play_claim(mechanism),
    )


def _play_claim(mechanism: Mechanism) -> tuple[Claim, Evidence] | None:
    """The mechanism's claim and what an attack measures against it."""
    if isinstance(mechanism, Heuristic):
        return None
    if mechanism.guarantee((1, 16, 16, 3)).published_claim is not None:
        published = VideoDprpValue()  # one number of a frame is enough to refute it
        return published.claim(), audit_game(published, confidence=AUDIT_CONFIDENCE)
    game = MechanismGame(mechanism=mechanism, trials=_NUM_TRIALS)
    return game.claim(), audit_game(game, confidence=AUDIT_CONFIDENCE)


def list_cells(shown: ReleasedClip) -> tuple[str, ...]:
    """One line of the table."""
    guarantee = shown.receipt.guarantee
    if shown.played is None:
        claim, evidence = "none: a heuristic", "-"
    else:
        claimed, measured = shown.played
        verdict = " REFUTED" if measured.refutes(claimed.epsilon) else ""
        evidence = f"{_formatting.format_rounded_down(measured.epsilon_at_least, 3)}{verdict}"
        pair = (
            f"({_formatting.format_rounded_up(claimed.epsilon)}, "
            f"{_formatting.format_rounded_up(claimed.delta)})"
        )
        claim = f"{pair} for one {guarantee.unit}"
        if guarantee.published_claim is not None:
            proved = (
                "nothing"
                if guarantee.epsilon is None
                else _formatting.format_rounded_up(guarantee.epsilon, 3)
            )
            claim = f"CLAIMED, NOT VALID: {claim}; proved: {proved}"
    return (
        shown.name,
        claim,
        evidence,
        f"{shown.quality.psnr:.2f}",
        f"{shown.quality.ssim:.3f}",
        f"{shown.seconds:.1f}",
    )


def _write_exactly(shown: ReleasedClip) -> str:
    """Quality, claim and evidence in words, and every sentence of the guarantee."""
    words = [
        f"PSNR {shown.quality.psnr:.2f} dB and SSIM {shown.quality.ssim:.3f} beside the original; "
        f"{shown.seconds:.1f} s, reading and writing included."
    ]
    if shown.played is not None:
        claim, evidence = shown.played
        words.append(
            f"Claim: epsilon {_formatting.format_rounded_up(claim.epsilon)} for one {claim.unit}. "
            "An attack "
            f"measured at least {_formatting.format_rounded_down(evidence.epsilon_at_least, 3)} "
            f"({evidence.attack}, {evidence.trials} trials)."
        )
    return page.format_listing([*words, *explain(shown.receipt.guarantee)])


# --- the place
SETTING = {"sigma": 32.0, "shape": "patterns", "unary": "evidence"}  # a map that can be shown
PLACES_KNOWN = Stage(seed=1, height=120, width=160, subjects=144, videos=288)


def make_place_chapter(folder: Path, progress: Progress = hide_progress) -> Chapter:
    """Hide the clip's place, show the map, and ask a network where it is."""
    original, target = folder / "clip.private.mp4", folder / "clip-place-hidden.mp4"
    video, masks = make_clip(), folder / "clip.private.masks.npy"
    if video.person_mask is None:
        raise ValueError("Expected a clip with its mask of people, got none.")
    np.save(masks, video.person_mask)
    mechanism = make_mechanism("ppedcrf", **SETTING, people="given", masks=str(masks))
    again = FileSettings(if_standing=IfExists.OVERWRITE)
    receipt = release_file(original, target, mechanism, options=again).receipt
    quality = measure_files(original, target, every=4)
    attack = make_attack("place_retrieval", gallery=(len(PLACES_KNOWN),))
    asked = make_mechanism("ppedcrf", **SETTING)
    (attacked,) = attack_mechanism(attack, asked, PLACES_KNOWN, progress=progress)
    words = compare_rates(attacked.ceiling[0], attacked.published[0])
    said = [
        "Noise on the background where networks look for the place; people stay as they are.",
        f"PSNR {quality.psnr:.2f} dB beside the original. A network that has pictures of the "
        f"places: {words}. A heuristic: nothing is proved.",
    ]
    drawn = page.format_figure(_draw_heat(mechanism, video.frames))  # type: ignore[arg-type]
    films = media.draw_side_by_side([("Before (made up)", original), ("Its place hidden", target)])
    pictures = films + page.format_paragraphs(said) + drawn
    section = release_sections.write_release_section(
        "The place, hidden", receipt, pictures=pictures, is_film=True
    )
    return Chapter(
        sections=[
            replace(section, has_originals=True),
            release_sections.write_attack_section("place_retrieval", [attacked]),
            release_sections.make_receipts_section([(target.name, receipt)]),
        ],
        systems=[
            DemoSystem(
                name="PPEDCRF: the place of a film",
                protects="nothing is proved; the background is made hard to recognise",
                epsilon="none: a heuristic",
                good_for=f"a film at {quality.psnr:.1f} dB, its people as they were",
                attack=words,
            )
        ],
        data={"place": {"psnr": quality.psnr, "top_1": attacked.published[0].value}},
    )


def _draw_heat(mechanism: Ppedcrf, frames: np.ndarray) -> str:
    """A frame, and beside it where the noise goes, from black to white."""
    maps = mechanism.map_frames(iter(frames), frames.shape)
    one = next(found for number, found in enumerate(maps) if number == _SHOWN_FRAME)
    most = max(float(one.amount.max()), 1e-6)
    grey = np.repeat((255 * one.amount / most).astype(np.uint8)[..., None], 3, axis=2)
    pictures = [sheet.SheetPicture(image=image) for image in (frames[_SHOWN_FRAME], grey)]
    return sheet.draw_sheet([sheet.SheetStrip(label="noise goes here", pictures=pictures)])


# --- an avatar instead
AVATAR_FILE = "clip-avatar.mp4"
# a sixth of them are published; of each person the attacker holds other films
PEOPLE_KNOWN = Stage(seed=1, height=128, width=128, subjects=36, videos=108, frames=12)


def make_avatar_chapter(folder: Path, progress: Progress = hide_progress) -> Chapter:
    """Replace who is in the clip, and ask whether people are told by clothes, hair and build."""
    original, target = folder / "clip.private.mp4", folder / AVATAR_FILE
    mechanism = make_mechanism("avatar")
    again = FileSettings(if_standing=IfExists.OVERWRITE)
    receipt = release_file(original, target, mechanism, options=again).receipt
    quality = measure_files(original, target, every=4)
    attack = make_attack("reidentify", by="body", joints="truth")
    (attacked,) = attack_mechanism(attack, mechanism, PEOPLE_KNOWN, progress=progress)
    words = compare_rates(attacked.ceiling[0], attacked.published[0])
    said = [
        "A figure of random build and clothes does what the person did; the place stays as it was.",
        f"An attacker who knows people by clothes, hair and build: {words}. A heuristic: nothing "
        "is proved, and somebody may be known by the way they move.",
    ]
    films = media.draw_side_by_side([("Before (made up)", original), ("An avatar instead", target)])
    pictures = films + page.format_paragraphs(said)
    section = release_sections.write_release_section(
        "An avatar instead", receipt, pictures=pictures, is_film=True
    )
    return Chapter(
        sections=[
            replace(section, has_originals=True),
            release_sections.write_attack_section("reidentify", [attacked]),
            release_sections.make_receipts_section([(target.name, receipt)]),
        ],
        systems=[
            DemoSystem(
                name="Avatars: a film of people",
                protects="nothing is proved; everybody is redrawn as somebody else",
                epsilon="none: a heuristic",
                good_for=f"a film at {quality.psnr:.1f} dB: poses, timing and place as they were",
                attack=words,
            )
        ],
        data={"avatar": {"psnr": quality.psnr, "rank_1": attacked.published[0].value}},
    )
