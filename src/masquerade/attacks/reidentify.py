"""Who is it? Recognise the people in what was published by face, body, gait, outline or sensors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from masquerade import _check
from masquerade.attacks.attack import (
    Attack,
    Case,
    MappedRecordings,
    ProgressCallback,
    Recording,
    Whose,
)
from masquerade.attacks.cues import CachedCue, NetworkCue
from masquerade.attacks.known_people import Appearance, KnownPeople, enrol_people
from masquerade.attacks.rates import bootstrap_figure, compute_hits, equal_error
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.io.workers import WorkerPool
from masquerade.recordings import Photo, Signal
from masquerade.scores import AttackResult, MeasuredRate

By: TypeAlias = Literal["face", "body", "gait", "silhouette", "worn"]
Held: TypeAlias = Literal["raw", "released"]
Joints: TypeAlias = Literal["estimated", "truth"]
Cue: TypeAlias = Callable[[Recording], np.ndarray]

_NUM_COCO_JOINTS = 17  # joints, as labels have them
_USUAL_PERSON_SHARE = 0.2  # of a frame that a person covers
_READS = {
    "face": "faces, with a network that tells people apart",
    "body": "clothes, hair and build",
    "gait": "limbs and how they move",
    "silhouette": "outlines over time",
    "worn": "spectra of what sensors felt",
}


@dataclass(frozen=True, kw_only=True)
class Reidentify(Attack):
    """Name the people in published recordings, from other recordings of them.

    The attacker holds recordings of known people, learns from these how people differ, and gives
    each published recording to whoever is nearest. Where nobody is seen they guess.

    Args:
        by: what they go by: face, body (clothes, hair, build), gait (joints over time), silhouette
            (outlines over time) or worn (sensors).
        gallery: which recordings of known people they compare with: raw ones, or the same after
            the mechanism was applied to them, as an attacker who adapts would.
        joints: estimated from what was published; or the truth, where labels have it: an upper
            bound for eyes better than these. By face and body it says where to look.
        jobs: processes that look at recordings; 0 for one a core. In one the networks themselves
            take the cores.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS, Medium.PHOTOS, Medium.SIGNALS)
    KNOWN: ClassVar[Whose] = "same people"

    by: By = "body"
    gallery: Held = "raw"
    joints: Joints = "estimated"
    jobs: int = 1

    def __post_init__(self) -> None:
        _check.at_least(0, "It is a number of processes; 0 takes one a core.", jobs=self.jobs)
        for name, kind in (("by", By), ("gallery", Held), ("joints", Joints)):
            if (value := getattr(self, name)) not in get_args(kind):
                raise ValueError(_check.describe_unknown(name, value, get_args(kind)))

    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """Recognise people in what was published, in raw recordings and in random ones."""
        if self.gallery == "released" and case.release is None:
            raise BadInput(
                "Expected a receipt beside what was published, so that the gallery can be released "
                "in the same way; give it, or use --gallery raw."
            )
        eyes = _CueReader(
            cue=cue_for(self.by, is_told=self.joints == "truth"), jobs=self.jobs, told=told
        )
        known = eyes.read_appearance(case.known, "known recordings")
        raw = eyes.read_appearance(case.raw, "raw recordings")
        self._check_seen(known, raw)
        clear = gallery = enrol_people(known)
        if self.gallery == "released":
            released = eyes.read_appearance(case.own_releases, "known recordings, released")
            gallery = enrol_people(released) if len(_list_visible_people(released)) > 1 else clear
        published = eyes.read_appearance(case.targets, "published recordings")
        random = eyes.read_appearance(
            MappedRecordings(case.random_recordings, _without_truth), "random recordings"
        )
        return (
            AttackResult(
                attack="reidentify",
                attacker=self._in_words(known),
                published=_measure_identification(gallery, published, case.seed),
                ceiling=_measure_identification(clear, raw, case.seed),
                floor=_measure_identification(gallery, random, case.seed),
                notes=self._list_notes(raw, published),
            ),
        )

    def _check_seen(self, known: Appearance, raw: Appearance) -> None:
        """Refuse raw recordings in which this cue sees nobody."""
        unseen = set(known.subjects) - _list_visible_people(known)
        remedy = "use another --by, or clearer or longer recordings."
        if unseen:
            raise BadInput(
                f"Expected to see each of the known people by {self.by} in one recording at least, "
                f"and there is none of {_format_names(sorted(unseen))}; {remedy}"
            )
        if not raw.is_seen.any():
            raise BadInput(
                f"Expected to see somebody by {self.by} in the raw recordings, and nobody was in "
                f"any of {_format_names(raw.subjects)}; {remedy}"
            )

    def _in_words(self, known: Appearance) -> str:
        count, people = len(known.rows), len(set(known.subjects))
        how = "raw" if self.gallery == "raw" else "released in the same way"
        return f"holds {count} recordings of {people} people, {how}, and reads {_READS[self.by]}"

    def _list_notes(self, raw: Appearance, published: Appearance) -> tuple[str, ...]:
        seen, clear = int(published.is_seen.sum()), int(raw.is_seen.sum())
        notes = []
        if min(seen, clear) < len(raw.rows):
            notes.append(
                f"Of {len(raw.rows)} recordings the published ones show somebody in {seen}, the "
                f"raw ones in {clear}; elsewhere the attacker guesses."
            )
        if seen < clear:
            notes.append(
                "Where eyes made for raw pictures find nobody, somebody with better eyes may; "
                "--joints truth says where to look, if labels know it."
            )
        if self.joints == "truth":
            notes.append(
                "The labels told where people and joints are: an upper bound, not an attack."
            )
        return tuple(notes)


def cue_for(by: By, *, is_told: bool) -> Cue:
    """What turns a recording into rows of features; each needs packages of its own."""
    if by == "worn":
        from masquerade.attacks.cues import WornCue

        return WornCue()
    return CachedCue(_network_cue(by, is_told=is_told))


def _network_cue(by: By, *, is_told: bool) -> NetworkCue:
    if by == "face":
        from masquerade.attacks.cues import FaceCue

        return FaceCue(is_told=is_told)
    if by == "body":
        from masquerade.attacks.cues import BodyCue

        return BodyCue(is_told=is_told)
    if by == "gait":
        from masquerade.attacks.cues import GaitCue

        return GaitCue(is_told=is_told)
    from masquerade.attacks.cues import SilhouetteCue

    return SilhouetteCue(is_told=is_told)


@dataclass(frozen=True, kw_only=True, eq=False)
class _CueReader:
    """A cue, and how many processes look by it."""

    cue: Cue
    jobs: int
    told: ProgressCallback

    def read_appearance(self, recordings: Sequence[Recording], what: str) -> Appearance:
        """What the cue sees in recordings, as many at a time as there are processes.

        Raises:
            BadInput: if one has no name of a person, or cannot be looked at; it says which.
        """
        rows: list[np.ndarray] = []
        subjects: list[str] = []

        def list_shown_recordings() -> Iterator[tuple[Recording, int]]:
            for number in range(len(recordings)):
                recording = recordings[number]
                subjects.append(_find_subject(recording, number, what))
                yield recording, number

        pool = WorkerPool(jobs=self.jobs, threads=1)
        for found in pool.map_tasks(partial(_read_cue, self.cue, what), list_shown_recordings()):
            self.told(f"looking at {what}", len(rows), len(recordings))
            rows.append(found)
        self.told(f"looking at {what}", len(recordings), len(recordings))
        return Appearance(rows=rows, subjects=tuple(subjects))


def _find_subject(recording: Recording, number: int, what: str) -> str:
    if recording.subject is None:
        raise BadInput(
            f"Expected to know who is in each recording, got none for number {number} of the "
            f"{what}; give a data set with subjects."
        )
    return recording.subject


def _read_cue(cue: Cue, what: str, shown: tuple[Recording, int]) -> np.ndarray:
    recording, number = shown
    try:
        return cue(recording)
    except BadInput as error:
        error.add_note(f"It is number {number} of the {what}, of {recording.subject}.")
        raise


def _without_truth(recording: Recording) -> Recording:
    """The same without labels of bodies: even ones, drawn by the noise that it shows."""
    if isinstance(recording, Signal):
        return recording
    pixels = recording.image[None] if isinstance(recording, Photo) else recording.frames
    count, height, width = pixels.shape[:3]
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(pixels).tobytes()))
    flat = (rng.random((count, _NUM_COCO_JOINTS, 2)) * (width, height)).astype(np.float32)
    if isinstance(recording, Photo):
        return replace(recording, joints=flat[0], visible=np.ones(_NUM_COCO_JOINTS, bool))
    solid = rng.uniform(-1, 1, (count, _NUM_COCO_JOINTS, 3)).astype(np.float32)
    mask = rng.random((count, height, width)) < _USUAL_PERSON_SHARE
    return replace(recording, joints=flat, joints_3d=solid, person_mask=mask)


def _list_visible_people(looks: Appearance) -> set[str]:
    pairs = zip(looks.subjects, looks.is_seen.tolist(), strict=True)
    return {subject for subject, is_seen in pairs if is_seen}


def _measure_identification(
    gallery: KnownPeople, looks: Appearance, seed: int
) -> tuple[MeasuredRate, ...]:
    """Rank-1, rank-5 and how well one person is told from another, with intervals over people."""
    distances, right = gallery.measure_distances(looks), gallery.find_columns(looks.subjects)
    error = equal_error(distances, right)

    def measure_figure(
        measure: str, of_rows: Callable[[np.ndarray], float], chance: float
    ) -> MeasuredRate:
        return bootstrap_figure(
            measure, of_rows, looks.subjects, of="people", seed=seed, chance=chance
        )

    def measure_rank(few: int) -> MeasuredRate:
        won = compute_hits(distances, right, among=few)
        chance = min(1.0, few / len(gallery.people))
        return measure_figure(f"rank-{few}", lambda rows: float(won[rows].mean()), chance)

    return (
        measure_rank(1),
        measure_rank(5),
        measure_figure("1 - EER", lambda rows: 1.0 - error(rows), 0.5),
    )


def _format_names(names: Sequence[str], most: int = 8) -> str:
    some = list(dict.fromkeys(names))
    return ", ".join(some[:most]) + (f" and {len(some) - most} more" if len(some) > most else "")
