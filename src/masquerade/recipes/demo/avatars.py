"""The demo's avatars: everybody in a clip replaced by a drawn figure, and who is still known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from masquerade.datasets.stage import Stage
from masquerade.publish.attack import attack_mechanism, make_attack
from masquerade.publish.evaluation import measure_files
from masquerade.publish.recording import Options, make_mechanism, release_file
from masquerade.publish.spine import IfStanding
from masquerade.recipes import bench
from masquerade.recipes.demo.chapter import Chapter, System, before_and_after
from masquerade.report import media, page, release_sections
from masquerade.report.release_sections import write_attack_section as attacked_section

FILE = "clip-avatar.mp4"
# a sixth of them are published; of each person the attacker holds other films
KNOWN = Stage(seed=1, height=128, width=128, subjects=36, videos=108, frames=12)


def replaced(folder: Path, told: bench.Told = bench.quiet) -> Chapter:
    """Replace who is in the clip, and ask whether people are told by clothes, hair and build."""
    original, target = folder / "clip.private.mp4", folder / FILE
    mechanism = make_mechanism("avatar")
    again = Options(if_standing=IfStanding.OVERWRITE)
    receipt = release_file(original, target, mechanism, options=again).receipt
    quality = measure_files(original, target, every=4)
    attack = make_attack("reidentify", by="body", joints="truth")
    (attacked,) = attack_mechanism(attack, mechanism, KNOWN, progress=told)
    words = before_and_after(attacked.ceiling[0], attacked.published[0])
    said = [
        "A figure of random build and clothes does what the person did; the place stays as it was.",
        f"An attacker who knows people by clothes, hair and build: {words}. A heuristic: nothing "
        "is proved, and somebody may be known by the way they move.",
    ]
    films = media.side_by_side([("Before (made up)", original), ("An avatar instead", target)])
    pictures = films + page.paragraphs(said)
    section = release_sections.write_release_section(
        "An avatar instead", receipt, pictures=pictures, is_film=True
    )
    return Chapter(
        sections=[
            replace(section, has_originals=True),
            attacked_section("reidentify", [attacked]),
            release_sections.receipts([(target.name, receipt)]),
        ],
        systems=[
            System(
                name="Avatars: a film of people",
                protects="nothing is proved; everybody is redrawn as somebody else",
                epsilon="none: a heuristic",
                good_for=f"a film at {quality.psnr:.1f} dB: poses, timing and place as they were",
                attack=words,
            )
        ],
        data={"avatar": {"psnr": quality.psnr, "rank_1": attacked.published[0].value}},
    )
