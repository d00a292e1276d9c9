"""The demo's video: one clip released in six ways, with claim, evidence, quality and time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade import _formatting
from masquerade.audits.game import Claim, MechanismGame
from masquerade.audits.video_dprp_value import VideoDprpValue
from masquerade.datasets.stage import Stage
from masquerade.mechanism import Heuristic, Mechanism
from masquerade.publish import pages
from masquerade.publish.attack import attack_mechanism, make_attack
from masquerade.publish.audits import audit_game
from masquerade.publish.evaluation import measure_files
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.quality.picture import PictureQuality
from masquerade.receipt import Receipt
from masquerade.recipes import bench
from masquerade.recipes.demo.chapter import CONFIDENCE, Chapter, System, before_and_after
from masquerade.recipes.stage import world
from masquerade.report import media, page, release_sections
from masquerade.report.release_sections import write_attack_section as attacked_section
from masquerade.scores import Attacked, Evidence
from masquerade.wording import explain

HEADING = ("release", "guarantee", "evidence: at least", "PSNR dB", "SSIM", "seconds")
_TRIALS = 1500
_TARGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-4}
_MAIN = "cosine-16-sites"  # the release that stands in the one table
# a sixth of them are published; of each the attacker holds other films
KNOWN = Stage(seed=1, height=96, width=96, subjects=72, videos=432)


def ways() -> dict[str, Mechanism]:
    """The releases, by the name of their file."""
    sites: dict[str, Any] = {**_TARGET, "unit": "pixels", "pixels": 16}
    return {
        "as-published": make_mechanism("video_dprp", form="as_published", unit="frame", **_TARGET),
        "orthonormal": make_mechanism("video_dprp", **sites),
        "pooled": make_mechanism("pooled_gaussian", **sites),
        "cosine-16-sites": make_mechanism("cosine_gaussian", **sites),
        "cosine-frame": make_mechanism("cosine_gaussian", unit="frame", **_TARGET),
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


def released(folder: Path, told: bench.Told = bench.quiet) -> Chapter:
    """Release the clip in every way; the original stays beside, marked private."""
    original = world.write(folder / "clip.private.mp4")
    found: list[ReleasedClip] = []
    for name, mechanism in ways().items():
        found.append(_shown(name, mechanism, original))
        told("releasing a video", len(found), len(ways()))
    main = next(shown for shown in found if shown.name == _MAIN)
    attacked = _attacked(main, told)
    frontier = pages.section(main.receipt)
    return Chapter(
        sections=[
            _first(main, original),
            _others(found),
            attacked_section("reidentify", [attacked]),
            *([frontier] if frontier is not None else []),
            release_sections.receipts([(shown.path.name, shown.receipt) for shown in found]),
        ],
        systems=[_system(main, attacked)],
        data={"videos": {shown.name: str(shown.path) for shown in found}},
    )


def _first(shown: ReleasedClip, original: Path) -> page.Section:
    """The release that the page begins with, beside what it was."""
    pictures = media.side_by_side([("Before (made up)", original), ("Published", shown.path)])
    unit = media.unit_on_frame(shown.receipt.guarantee.unit, shown.path)
    section = release_sections.write_release_section(
        "A film of somebody who never lived",
        shown.receipt,
        pictures=pictures,
        unit=unit,
        is_film=True,
    )
    return replace(section, has_originals=True)


def _others(found: list[ReleasedClip]) -> page.Section:
    """All ways beside each other, with claim, evidence and quality."""
    films = media.side_by_side([(shown.name, shown.path) for shown in found])
    table = page.table(HEADING, [row(shown) for shown in found], says="The film in several ways")
    exact = "".join(page.folded(f"{shown.name}, exactly", _exactly(shown)) for shown in found)
    body = films + table + exact
    return page.Section(title="The same film, in several ways", body=body, has_originals=True)


def _attacked(shown: ReleasedClip, told: bench.Told) -> Attacked:
    """Whether people are told by clothes, hair and build, where labels say where to look."""
    attack = make_attack("reidentify", by="body", joints="truth")
    (found,) = attack_mechanism(attack, ways()[shown.name], KNOWN, progress=told)
    return found


def _system(shown: ReleasedClip, attacked: Attacked) -> System:
    guarantee, proved = shown.receipt.guarantee, "none"
    if guarantee.epsilon is not None:
        proved = f"{_formatting.shown(guarantee.epsilon)}, delta {guarantee.delta:g}"
    return System(
        name="Video-DPRP's task: a film, by cosine_gaussian",
        protects=f"any {guarantee.unit.sites} pixels of a film; its blur alone hides people",
        epsilon=proved,
        good_for=f"a film at {shown.quality.psnr:.1f} dB beside the original",
        attack=before_and_after(attacked.ceiling[0], attacked.published[0]),
    )


def _shown(name: str, mechanism: Mechanism, original: Path) -> ReleasedClip:
    target, start = original.with_name(f"clip-{name}.mp4"), time.perf_counter()
    again = Options(if_standing=IfStanding.OVERWRITE, accept_grey=True)  # to compare with
    done = release_file(original, target, mechanism, options=again)
    return ReleasedClip(
        name=name,
        path=target,
        receipt=done.receipt,
        seconds=time.perf_counter() - start,
        quality=measure_files(original, target, every=4),
        played=_played(mechanism),
    )


def _played(mechanism: Mechanism) -> tuple[Claim, Evidence] | None:
    """The mechanism's claim and what an attack measures against it."""
    if isinstance(mechanism, Heuristic):
        return None
    if mechanism.guarantee((1, 16, 16, 3)).published_claim is not None:
        published = VideoDprpValue()  # one number of a frame is enough to refute it
        return published.claim(), audit_game(published, confidence=CONFIDENCE)
    game = MechanismGame(mechanism=mechanism, trials=_TRIALS)
    return game.claim(), audit_game(game, confidence=CONFIDENCE)


def row(shown: ReleasedClip) -> tuple[str, ...]:
    """One line of the table."""
    guarantee = shown.receipt.guarantee
    if shown.played is None:
        claim, evidence = "none: a heuristic", "-"
    else:
        claimed, measured = shown.played
        verdict = " REFUTED" if measured.refutes(claimed.epsilon) else ""
        evidence = f"{_formatting.shown_below(measured.epsilon_at_least, 3)}{verdict}"
        pair = f"({_formatting.shown(claimed.epsilon)}, {_formatting.shown(claimed.delta)})"
        claim = f"{pair} for one {guarantee.unit}"
        if guarantee.published_claim is not None:
            proved = (
                "nothing" if guarantee.epsilon is None else _formatting.shown(guarantee.epsilon, 3)
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


def _exactly(shown: ReleasedClip) -> str:
    """Quality, claim and evidence in words, and every sentence of the guarantee."""
    words = [
        f"PSNR {shown.quality.psnr:.2f} dB and SSIM {shown.quality.ssim:.3f} beside the original; "
        f"{shown.seconds:.1f} s, reading and writing included."
    ]
    if shown.played is not None:
        claim, evidence = shown.played
        words.append(
            f"Claim: epsilon {_formatting.shown(claim.epsilon)} for one {claim.unit}. An attack "
            f"measured at least {_formatting.shown_below(evidence.epsilon_at_least, 3)} "
            f"({evidence.attack}, {evidence.trials} trials)."
        )
    return page.listing([*words, *explain(shown.receipt.guarantee)])
