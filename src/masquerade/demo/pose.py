"""The demo's joints: a small network that learns poses privately, and skeletons that it draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._formatting import format_rounded_up
from masquerade.attacks.rates import bootstrap_figure
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.demo.steps import Chapter, DemoSystem, Progress, hide_progress
from masquerade.networks.network import TinyVitSmall
from masquerade.publish.models import SHEET_SUFFIX, train_file
from masquerade.receipt import Receipt, receipt_path, sidecar_path
from masquerade.recordings import Photo
from masquerade.report import page, sheet
from masquerade.report.page import PagePart
from masquerade.scores import MeasuredRate
from masquerade.training import rows
from masquerade.training.learner import load_model
from masquerade.training.methods import DpSgd, FeatureProjective

EPSILON, CLIP_NORM = 2.0, 0.1
# a third of the photos are learned from, a third is public, a third is tested on; cameras are
# turned, which the public weights have not met, so that there is something to learn
WORLD = Stage(
    kind=Medium.PHOTOS,
    seed=1,
    photo_px=128,
    subjects=36,
    photos=480,
    joints="mpii",
    photo_roll_deg=40.0,
)
_COMMON_FIELDS: dict[str, Any] = {
    **{"unit": "record", "delta": 1e-5, "relation": "replace_one", "batch": 64, "epochs": 10.0},
    **{"learning_rate": 2e-3, "schedule": "cosine", "warmup": 0.1, "optimiser": "adamw"},
    "part": "head",  # what comes before it is frozen, and seen once by it
}
OPEN_METHOD = DpSgd(epsilon=math.inf, clip_norm=1.0, **_COMMON_FIELDS)
PRIVATE_METHOD = FeatureProjective(
    epsilon=EPSILON,
    clip_norm=CLIP_NORM,
    psi="pool",
    block=3,  # of crops, which are twice as large as the photos' own pixels
    bits=4,
    weight=0.3,
    public_batch=64,
    directions=48,
    public_records=48,
    refresh=10,
    **_COMMON_FIELDS,
)
_PHOTOS_PER_BATCH = 16  # photos that a network sees at once
_DRAWN_PHOTOS = (0, 7, 21, 40)  # tested photos that are drawn
_NEAR_HEADS = 0.5  # of a head


@dataclass(frozen=True, kw_only=True, eq=False)
class PoseModel:
    """A network, and how far from the truth it finds joints.

    Args:
        training_distances: (N, J) distances in heads, of photos that it learned from.
        test_distances: of others.
        joints: (N, J, 2) found in the tested ones.
    """

    training_distances: np.ndarray
    test_distances: np.ndarray
    joints: np.ndarray

    @property
    def joint_share(self) -> float:
        """The share of joints within half a head, of the tested photos."""
        known = self.test_distances[np.isfinite(self.test_distances)]
        return float((known <= _NEAR_HEADS).mean())

    @property
    def attack_auc(self) -> MeasuredRate:
        """How well an attacker who compares errors tells photos that it learned from: the AUC."""
        errors = [
            np.nanmean(each, axis=1) for each in (self.training_distances, self.test_distances)
        ]
        every = np.concatenate(errors)
        is_seen = np.arange(len(every)) < len(errors[0])

        def compute_auc(rows: np.ndarray) -> float:
            inside, outside = every[rows][is_seen[rows]], every[rows][~is_seen[rows]]
            if not len(inside) or not len(outside):
                return float("nan")
            lower = inside[:, None] < outside[None]
            return float((lower + 0.5 * (inside[:, None] == outside[None])).mean())

        return bootstrap_figure(
            "AUC", compute_auc, range(len(every)), of="photos", seed=1, chance=0.5
        )


def make_chapter(folder: Path, progress: Progress = hide_progress) -> Chapter:
    """Learn with and without noise, test on other people, and draw what is found."""
    learned_from, public, tested = (WORLD.select_part(name) for name in ("train", "public", "test"))
    photos = {
        name: [rows.photo_of(part[index]) for index in range(len(part))]
        for name, part in (("seen", learned_from), ("tested", tested))
    }
    network, models, receipt = TinyVitSmall(), dict[str, PoseModel](), None
    given: dict[str, tuple[Any, Any]] = {
        "open": (OPEN_METHOD, ()),
        "private": (PRIVATE_METHOD, public),
    }
    for number, (name, (method, aside)) in enumerate(given.items(), 1):
        target = folder / f"pose-{name}.safetensors"
        for path in (target, receipt_path(target), sidecar_path(target, SHEET_SUFFIX)):
            path.unlink(missing_ok=True)
        receipt = train_file(learned_from, target, method, network, public=aside).receipt
        models[name] = _test_model(load_model(target).net, photos)
        progress("learning poses", number, 2)
    assert receipt is not None
    pristine = _test_model(network.make(len(WORLD.joint_names), seed=0), photos)
    return _write_chapter(models["private"], models["open"], pristine, receipt, photos)


def _test_model(net: Any, photos: dict[str, list[Photo]]) -> PoseModel:
    found = {name: _find_joints(net, some) for name, some in photos.items()}
    return PoseModel(
        training_distances=_measure_distances(found["seen"], photos["seen"]),
        test_distances=_measure_distances(found["tested"], photos["tested"]),
        joints=found["tested"],
    )


def _find_joints(net: Any, photos: Sequence[Photo]) -> np.ndarray:
    """(N, J, 2) where the network finds joints."""
    pairs = [(photo.image, photo.box) for photo in photos]
    starts = range(0, len(pairs), _PHOTOS_PER_BATCH)
    smoothing = net.head.smoothing
    several = [pairs[start : start + _PHOTOS_PER_BATCH] for start in starts]
    return np.concatenate(
        [rows.find_joints(net.eval(), some, smoothing=smoothing).joints for some in several]
    )


def _measure_distances(found: np.ndarray, photos: Sequence[Photo]) -> np.ndarray:
    """(N, J) from the truth, in heads; NaN where the truth is not known."""
    truth = np.stack([photo.joints for photo in photos])  # type: ignore[misc]
    heads = np.array([photo.head_px or np.nan for photo in photos])
    apart = np.linalg.norm(found - truth, axis=2) / heads[:, None]
    visible = np.stack([photo.visible for photo in photos])  # type: ignore[misc]
    return np.where(visible, apart, np.nan)


def _write_chapter(
    ours: PoseModel,
    free: PoseModel,
    alone: PoseModel,
    receipt: Receipt,
    photos: dict[str, list[Photo]],
) -> Chapter:
    """The skeletons, the sentences and the line of the table."""
    guarantee = receipt.guarantee
    before, after = free.attack_auc, ours.attack_auc
    proved = "none" if guarantee.epsilon is None else format_rounded_up(guarantee.epsilon, 4)
    kept = (
        f"finds {100 * ours.joint_share:.0f} % of joints; without privacy "
        f"{100 * free.joint_share:.0f}, "
        f"learning nothing {100 * alone.joint_share:.0f}"
    )
    attack = (
        f"photos that it learned from told from others: AUC {before.value:.2f}, then "
        f"{after.value:.2f} ({after.low:.2f} to {after.high:.2f}); guessing 0.50"
    )
    shown_photos = [place for place in _DRAWN_PHOTOS if place < len(photos["tested"])]
    strips = [
        sheet.SheetStrip(
            label=label,
            pictures=[
                sheet.SheetPicture(image=photos["tested"][place].image, joints=joints[place])
                for place in shown_photos
            ],
        )
        for label, joints in (
            ("the truth", [photo.joints for photo in photos["tested"]]),
            ("learning nothing", alone.joints),
            (f"epsilon {EPSILON:g}", ours.joints),
            ("without privacy", free.joints),
        )
    ]
    drawn = sheet.draw_sheet(strips, joint_names=WORLD.joint_names)
    said = [
        f"Trained on {len(photos['seen'])} photos of people who never lived, tested on "
        f"{len(photos['tested'])} of others: it {kept}.",
        f"An attacker who compares errors: {attack}.",
    ]
    title = "Joints in photos, learned privately"
    return Chapter(
        sections=[
            page.Section(
                title=title,
                body=page.format_figure(drawn) + page.format_paragraphs(said),
                has_originals=True,
                part=PagePart.PICTURES,
            )
        ],
        systems=[
            DemoSystem(
                name="Private pose: joints in photos, by feature_projective",
                protects="one person in one photo, but for a coarse picture of it and the joints",
                epsilon=f"{proved}, delta {guarantee.delta:g}",
                good_for=kept,
                attack=attack,
            )
        ],
        data={
            "pose": {
                "right": {
                    "private": ours.joint_share,
                    "free": free.joint_share,
                    "alone": alone.joint_share,
                },
                "auc": {"private": after.value, "free": before.value},
            }
        },
    )
