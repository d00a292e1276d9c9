"""Tell what people look like: gender, skin tone, face, build, clothing, and what else is labelled.

A network looks at the person in several frames and answers yes or no to many questions at once, as
papers on visual privacy have it [orekondy2017, nken2025]. One attacker has learned from raw
recordings of other people; the other releases them in the way of the targets first, and learns
from that. Both are told where the person is, where that is known.

How well yes-or-no labels are told: cMAP and class-wise F1, as papers on visual privacy do.

A label that all or none of the records have is left out: there is nothing to tell. Records of the
same score come in together, so that no order among them is made up.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, torch
from masquerade.attacks.attack import (
    Attack,
    Case,
    ProgressCallback,
    RandomRecordings,
    Recording,
    Whose,
)
from masquerade.attacks.looks import (
    AppearanceQuestion,
    AppearanceTraining,
    LooksNetwork,
    PictureSet,
    crop_pictures,
    has_person_location,
    list_questions,
)
from masquerade.attacks.rates import bootstrap_figure
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.io import devices, downloads
from masquerade.networks import without_privacy
from masquerade.scores import AttackResult, MeasuredRate
from masquerade.vision import embedding_cache

if TYPE_CHECKING:
    from masquerade.vision import convolutional as efficientnet_lite
else:
    efficientnet_lite = lazy_module("masquerade.vision.convolutional", extra="train")


def average_precisions(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(L,) the area below precision over recall of each label, as steps; NaN where it has none.

    Args:
        scores: (N, L), larger where a label is likelier.
        right: (N, L) whether it holds.

    Example:
        >>> average_precisions(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]]))
        array([0.83333333])
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=0)
    hits = np.take_along_axis(np.asarray(right, float), order, axis=0)
    precision = np.cumsum(hits, axis=0) / np.arange(1, len(hits) + 1)[:, None]
    is_last = np.vstack([ranked[:-1] != ranked[1:], np.ones((1, scores.shape[1]), bool)])
    places = np.where(is_last, np.arange(len(hits))[:, None], len(hits))
    ends = np.minimum.accumulate(places[::-1], axis=0)[::-1]  # where records of this score end
    total = hits.sum(axis=0)
    found = (hits * np.take_along_axis(precision, ends, axis=0)).sum(axis=0)
    return np.where(_is_asked(right), found / np.maximum(total, 1), np.nan)


def class_mean_average_precision(scores: np.ndarray, right: np.ndarray) -> float:
    """cMAP: the mean over labels of `average_precisions`; NaN where no label can be told."""
    return _average_known(average_precisions(scores, right))


def class_f1(said: np.ndarray, right: np.ndarray) -> float:
    """The mean over labels of F1; a label that is never said and does hold counts as 0.

    Args:
        said: (N, L) whether a label is said to hold.
        right: (N, L) whether it does.

    Example:
        >>> class_f1(np.array([[1], [1], [0]]), np.array([[1], [0], [1]]))
        0.5
    """
    said, right = np.asarray(said, bool), np.asarray(right, bool)
    both = (said & right).sum(axis=0)
    either = said.sum(axis=0) + right.sum(axis=0)
    return _average_known(np.where(_is_asked(right), 2 * both / np.maximum(either, 1), np.nan))


def compute_prevalence(right: np.ndarray) -> float:
    """The mean share of records that have a label: what guessing gets as cMAP."""
    return _average_known(np.where(_is_asked(right), np.mean(right, axis=0), np.nan))


def _is_asked(right: np.ndarray) -> np.ndarray:
    total = np.asarray(right, float).sum(axis=0)
    return np.asarray((total > 0) & (total < len(right)))


def _average_known(each: np.ndarray) -> float:
    known = each[np.isfinite(each)]
    return float(known.mean()) if len(known) else float("nan")


_ATTACKER_WORDS = {
    "raw": "has learned from raw recordings of other people",
    "adaptive": "has learned from other people's recordings, released in the same way",
}


@dataclass(frozen=True, kw_only=True)
class AttributeInference(Attack):
    """Tell attributes of people: cMAP and class-wise F1 over yes-or-no labels.

    Args:
        attacker: raw has learned from raw recordings; adaptive releases them first; or both.
        network: conv is small and learns from nothing; efficientnet_lite0 has seen ImageNet and
            stays as it is, and only what follows learns.
        looks_at: person, where it is known where that is, or the whole frame.
        pictures: of each video, spread over its frames; their answers are averaged.
        attributes: which; all that are known of both sides if none is named.
        steps: of learning, in batches of 64 pictures.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS, Medium.PHOTOS)
    KNOWN: ClassVar[Whose] = "other people"

    attacker: Literal["raw", "adaptive", "both"] = "both"
    network: LooksNetwork = "conv"
    looks_at: Literal["person", "frame"] = "person"
    pictures: int = 4
    attributes: tuple[str, ...] = ()
    steps: int = 800

    def __post_init__(self) -> None:
        _check.count(pictures=self.pictures, steps=self.steps)

    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """Look, learn and tell, on what was published, raw and random."""
        return self.prepare_attack(case, told=told).attack_targets(case, told=told)

    def prepare_attack(self, case: Case, *, told: ProgressCallback) -> PreparedAttack:
        """All that does not depend on how recordings are released: networks, ceiling and floors."""
        look = _PictureReader.from_case(self, case)
        raw = look.read_pictures("raw targets", case.raw, told)
        known = look.read_pictures("known", case.known, told)
        asked = list_questions(known.told, raw.told, self.attributes)
        exam = _AttributeTest(look=look, asked=asked, seed=case.seed)
        learned = exam.train_network(known, "raw", told)
        random = look.read_pictures("random targets", case.random_recordings, told)
        floors = {"raw": exam.score_network(learned, random)}
        if self.attacker != "raw":
            nothing = look.read_pictures(
                "known, random", RandomRecordings(case.known, stream=1), told
            )
            floors["adaptive"] = exam.score_network(
                exam.train_network(nothing, "random", told), random
            )
        ceiling = exam.score_network(learned, raw)
        return PreparedAttack(exam=exam, learned=learned, ceiling=ceiling, floors=floors)


@dataclass(frozen=True, kw_only=True, eq=False)
class _PictureReader:
    """How recordings are looked at."""

    plan: AttributeInference
    is_near: bool

    @classmethod
    def from_case(cls, plan: AttributeInference, case: Case) -> _PictureReader:
        if len(case.known) == 0:
            raise BadInput("Expected recordings that the attacker has learned from, got none.")
        is_near = plan.looks_at == "person" and all(
            has_person_location(side[0]) for side in (case.known, case.targets, case.raw)
        )
        return cls(plan=plan, is_near=is_near)

    def read_pictures(
        self, what: str, recordings: Sequence[Recording], told: ProgressCallback
    ) -> PictureSet:
        """Some squares of each."""
        return crop_pictures(
            recordings,
            each=self.plan.pictures,
            is_near=self.is_near,
            progress=lambda done: told(f"looking: {what}", done, len(recordings)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _AttributeTest:
    """Questions, those who learn the answers, and their marks."""

    look: _PictureReader
    asked: list[AppearanceQuestion]
    seed: int

    def train_network(
        self, known: PictureSet, what: str, told: ProgressCallback
    ) -> torch.nn.Module:
        """A network that has learned to answer."""
        plan = self.look.plan
        school = AppearanceTraining(network=plan.network, steps=plan.steps, seed=self.seed)
        return school.train_classifier(
            self._make_inputs(known),
            self._list_answers(known),
            told=partial(told, f"learning: {what}"),
        )

    def score_network(self, net: torch.nn.Module, seen: PictureSet) -> tuple[MeasuredRate, ...]:
        """CMAP and F1, with their intervals over people."""
        out, right = (
            without_privacy.predict_outputs(net, self._make_inputs(seen)),
            self._list_answers(seen),
        )
        whose = np.array(seen.whose)
        if not self._is_by_frame(seen):
            _, first = np.unique(seen.of, return_index=True)
            out = np.stack([out[seen.of == seen.of[row]].mean(axis=0) for row in first])
            right, whose = right[first], whose[first]
        of = "recordings" if str(whose[0]).startswith("recording ") else "people"
        whole = average_precisions(out, right)
        measures = {
            "cMAP": lambda rows: _compute_cmap(out[rows], right[rows], whole),
            "F1": lambda rows: class_f1(out[rows] > 0, right[rows]),
        }
        chances = {"cMAP": compute_prevalence(right), "F1": None}
        return tuple(
            bootstrap_figure(
                name,
                measure,
                whose.tolist(),
                of=of,
                seed=self.seed + zlib.crc32(name.encode()),
                chance=chances[name],
            )
            for name, measure in measures.items()
        )

    def _list_answers(self, seen: PictureSet) -> np.ndarray:
        return np.array([[one.is_true_for(told) for one in self.asked] for told in seen.told])

    def _is_by_frame(self, seen: PictureSet) -> bool:
        """Whether a label changes within a recording."""
        right = self._list_answers(seen)
        return any(len(np.unique(right[seen.of == at], axis=0)) > 1 for at in np.unique(seen.of))

    def _make_inputs(self, seen: PictureSet) -> np.ndarray:
        network = self.look.plan.network
        if network == "conv":
            return seen.squares
        return embedding_cache.read_or_embed(
            seen.squares.transpose(0, 2, 3, 1),
            fingerprint=f"squares {downloads.find_asset(network).sha256}",
            make=lambda some: efficientnet_lite.embed_images(some, net=_load_imagenet()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAttack:
    """Attackers who know the questions and have learned from raw recordings.

    Args:
        exam: the questions.
        learned: the network that has learned from raw recordings.
        ceiling: its marks on the raw targets.
        floors: by attacker, the marks on random targets.
    """

    exam: _AttributeTest
    learned: torch.nn.Module
    ceiling: tuple[MeasuredRate, ...]
    floors: Mapping[str, tuple[MeasuredRate, ...]]

    def attack_targets(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """What each attacker tells of the targets; those and the known ones are as prepared for."""
        exam, look = self.exam, self.exam.look
        published = look.read_pictures("published", case.targets, told)
        found = []
        if look.plan.attacker != "adaptive":
            found.append(self._make_result("raw", exam.score_network(self.learned, published)))
        if look.plan.attacker != "raw":
            own = look.read_pictures("known, released", case.own_releases, told)
            marks = exam.score_network(exam.train_network(own, "released", told), published)
            found.append(self._make_result("adaptive", marks))
        return tuple(found)

    def _make_result(self, attacker: str, published: tuple[MeasuredRate, ...]) -> AttackResult:
        is_near, asked = self.exam.look.is_near, self.exam.asked
        where = "told where the person is" if is_near else "looks at whole frames"
        return AttackResult(
            attack="attribute_inference",
            attacker=f"{_ATTACKER_WORDS[attacker]}; {where}",
            published=published,
            ceiling=self.ceiling,
            floor=self.floors[attacker],
            notes=(f"{len(asked)} labels: {', '.join(map(str, asked))}.",),
        )


def _compute_cmap(scores: np.ndarray, right: np.ndarray, whole: np.ndarray) -> float:
    """Of people drawn again: a label that they all have or lack counts as among all people.

    To leave it out would leave out rare labels, which are told worst, and so raise the mean.
    """
    drawn = average_precisions(scores, right)
    return float(np.nanmean(np.where(np.isnan(drawn), whole, drawn)))


def _load_imagenet() -> torch.nn.Module:
    net: torch.nn.Module = efficientnet_lite.load_efficientnet_lite(
        downloads.fetch_asset("efficientnet_lite0")
    )
    return net.to(devices.device_name())
