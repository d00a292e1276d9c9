"""Recognise where a recording was made, by pictures of places that the attacker holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module
from masquerade.attacks.attack import Attack, Case, ProgressCallback, Whose
from masquerade.attacks.place_matching import (
    Motion,
    PlaceMatch,
    PlaceQueries,
    PlaceViewer,
    Rule,
    ViewSettings,
)
from masquerade.collection import Medium
from masquerade.scores import AttackResult

if TYPE_CHECKING:
    from masquerade.vision import place_features
else:
    place_features = lazy_module("masquerade.vision.place_features", extra="train")


@dataclass(frozen=True, kw_only=True)
class PlaceRetrieval(Attack):
    """Compare a published frame with pictures of known places, by features of public networks.

    The attacker of [ma2026, Sec. 3.1]: cosine similarity of features, the middle frame of a
    recording, galleries of 12, 24 and 48 places of which all but the twelve asked for are the
    hardest distractors. Beyond it, this one may average frames along the flow, take noise out, and
    learn from recordings that it has released itself.

    Args:
        backbones: networks that look, one attacker each; those without published weights need a
            file.
        weights: files of those networks, in their order.
        anchor: the network that chooses distractors.
        gallery: how many places a gallery has; sizes beyond the known places are left out.
        views: pictures of a place in the gallery, at most.
        rule: the frame in the middle, or four spread over the recording.
        frames: how many around it are averaged.
        motion: whether they are moved onto it along the optical flow, or taken as they are.
        denoise: whether noise is then taken out.
        attacker: raw compares with raw pictures; adaptive releases its own recordings in the same
            way, compares with those, and has learned a linear map from other places; both runs
            each.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS, Medium.PHOTOS)
    KNOWN: ClassVar[Whose] = "same places"
    backbones: tuple[str, ...] = ("efficientnet_lite0",)
    weights: tuple[Path, ...] = ()
    anchor: str = "efficientnet_lite0"
    gallery: tuple[int, ...] = (12, 24, 48)
    views: int = 4
    rule: Rule = "middle"
    frames: int = 1
    motion: Motion = "flow"
    denoise: bool = False
    attacker: Literal["raw", "adaptive", "both"] = "raw"

    def __post_init__(self) -> None:
        _check.count(views=self.views, frames=self.frames)
        for size in self.gallery:
            _check.count(gallery=size)
            _check.at_least(2, "With one place there is nothing to find.", gallery=size)
        if not self.gallery or not self.backbones:
            raise ValueError("Expected at least one gallery size and one backbone, got none.")
        _ = self._networks_by_name  # checks the names

    @property
    def view_settings(self) -> ViewSettings:
        """How pictures are made of what was published."""
        return ViewSettings(
            rule=self.rule, frames=self.frames, motion=self.motion, denoise=self.denoise
        )

    @property
    def _networks_by_name(self) -> dict[str, place_features.PlaceFeatures]:
        """The networks by name, the anchor among them."""
        lacking = [name for name in self.backbones if not place_features.has_weights(name)]
        if len(lacking) != len(self.weights):
            wanted = " ".join(
                f"{name}: {place_features.find_weights_remedy(name)}" for name in lacking
            )
            raise ValueError(
                f"Expected a file in weights for each network that has none of its own, "
                f"{len(lacking)} in all, got {len(self.weights)}. {wanted}".rstrip()
            )
        files = dict(zip(lacking, self.weights, strict=True))
        names = dict.fromkeys((*self.backbones, self.anchor))
        return {
            name: place_features.PlaceFeatures(backbone=name, weights=files.get(name))
            for name in names
        }

    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """One answer for each network and attacker."""
        networks = self._networks_by_name
        known = PlaceViewer(networks=networks, told=told).view_recordings(
            case.known, ViewSettings(rule=self.rule), what="gallery", most=self.views
        )
        eyes = PlaceViewer(networks={name: networks[name] for name in self.backbones}, told=told)
        raw = eyes.view_recordings(case.raw, self.view_settings, what="raw")
        asked = PlaceQueries.from_views(known, raw, count=len(case.raw))
        sides = {"known": known, "raw": raw}
        others = {"published": (raw, case.targets), "random": (raw, case.random_recordings)}
        if self.attacker != "raw":
            others["released"], others["unreleased"] = (
                (known, some) for some in (case.own_releases, case.known)
            )
        for what, (same, some) in others.items():
            sides[what] = eyes.view_again(same, some, self.view_settings, what=what)
        ways = {"raw": (False,), "adaptive": (True,), "both": (False, True)}[self.attacker]
        return tuple(
            self._make_result(
                name,
                {side: seen.features[name] for side, seen in sides.items()},
                match=PlaceMatch(
                    asked=asked,
                    sizes=self.gallery,
                    anchor=known.features[self.anchor],
                    seed=case.seed,
                ),
                is_adaptive=way,
            )
            for name in self.backbones
            for way in ways
        )

    def _make_result(
        self, name: str, sides: dict[str, np.ndarray], *, match: PlaceMatch, is_adaptive: bool
    ) -> AttackResult:
        """What one attacker found."""
        held = {"published": "known", "raw": "known", "random": "known"}
        if is_adaptive:
            held = {"published": "released", "raw": "unreleased", "random": "released"}
        found = {
            side: match.measure_successes(
                sides[side][match.asked.rows], sides[gallery], is_adaptive=is_adaptive
            )
            for side, gallery in held.items()
        }
        return AttackResult(
            attack="place_retrieval",
            attacker=self._describe_attacker(name, is_adaptive=is_adaptive),
            published=found["published"],
            ceiling=found["raw"],
            floor=found["random"],
            notes=match.notes,
        )

    def _describe_attacker(self, name: str, *, is_adaptive: bool) -> str:
        pictures = {"middle": "the middle frame", "spread": "four frames"}[self.rule]
        if self.frames > 1:
            how = {"flow": "along the flow", "still": "as they stand"}[self.motion]
            pictures += f", each a mean of {self.frames} {how}"
        pictures += ", denoised" * self.denoise
        if is_adaptive:
            return f"{name} on {pictures}; has released recordings of other places and learned"
        return f"{name} on {pictures}; compares with raw pictures"
