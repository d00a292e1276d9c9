"""The demo's place: a clip whose background is hidden, and whether networks still name places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from masquerade.datasets.stage import Stage
from masquerade.places.ppedcrf import Ppedcrf
from masquerade.publish.attack import attack_mechanism, make_attack
from masquerade.publish.evaluation import measure_files
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.recipes import bench
from masquerade.recipes.demo.chapter import Chapter, System, before_and_after
from masquerade.recipes.stage import world
from masquerade.report import media, page, release_sections, sheet
from masquerade.report.release_sections import write_attack_section as attacked_section

SETTING = {"sigma": 32.0, "shape": "patterns", "unary": "evidence"}  # a map that can be shown
KNOWN = Stage(seed=1, height=120, width=160, subjects=144, videos=288)
_SHOWN = 32  # the frame that stands on the page


def hidden(folder: Path, told: bench.Told = bench.quiet) -> Chapter:
    """Hide the clip's place, show the map, and ask a network where it is."""
    original, target = folder / "clip.private.mp4", folder / "clip-place-hidden.mp4"
    video, masks = world.clip(), folder / "clip.private.masks.npy"
    if video.person_mask is None:
        raise ValueError("Expected a clip with its mask of people, got none.")
    np.save(masks, video.person_mask)
    mechanism = make_mechanism("ppedcrf", **SETTING, people="given", masks=str(masks))
    again = Options(if_standing=IfStanding.OVERWRITE)
    receipt = release_file(original, target, mechanism, options=again).receipt
    quality = measure_files(original, target, every=4)
    attack = make_attack("place_retrieval", gallery=(len(KNOWN),))
    asked = make_mechanism("ppedcrf", **SETTING)
    (attacked,) = attack_mechanism(attack, asked, KNOWN, progress=told)
    words = before_and_after(attacked.ceiling[0], attacked.published[0])
    said = [
        "Noise on the background where networks look for the place; people stay as they are.",
        f"PSNR {quality.psnr:.2f} dB beside the original. A network that has pictures of the "
        f"places: {words}. A heuristic: nothing is proved.",
    ]
    drawn = page.figure(_heat(mechanism, video.frames))  # type: ignore[arg-type]
    films = media.side_by_side([("Before (made up)", original), ("Its place hidden", target)])
    pictures = films + page.paragraphs(said) + drawn
    section = release_sections.write_release_section(
        "The place, hidden", receipt, pictures=pictures, is_film=True
    )
    return Chapter(
        sections=[
            replace(section, has_originals=True),
            attacked_section("place_retrieval", [attacked]),
            release_sections.receipts([(target.name, receipt)]),
        ],
        systems=[
            System(
                name="PPEDCRF: the place of a film",
                protects="nothing is proved; the background is made hard to recognise",
                epsilon="none: a heuristic",
                good_for=f"a film at {quality.psnr:.1f} dB, its people as they were",
                attack=words,
            )
        ],
        data={"place": {"psnr": quality.psnr, "top_1": attacked.published[0].value}},
    )


def _heat(mechanism: Ppedcrf, frames: np.ndarray) -> str:
    """A frame, and beside it where the noise goes, from black to white."""
    maps = mechanism.seen(iter(frames), frames.shape)
    one = next(found for number, found in enumerate(maps) if number == _SHOWN)
    most = max(float(one.amount.max()), 1e-6)
    grey = np.repeat((255 * one.amount / most).astype(np.uint8)[..., None], 3, axis=2)
    pictures = [sheet.Picture(image=image) for image in (frames[_SHOWN], grey)]
    return sheet.sheet([sheet.Strip(label="noise goes here", pictures=pictures)])
