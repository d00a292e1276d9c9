"""Undo a rehearsal: whoever knows the seed draws the same noise and takes it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from masquerade import _check
from masquerade._optional import ndimage
from masquerade.attacks.attack import Attack, Case, ProgressCallback, Recording, Whose
from masquerade.attacks.rates import bootstrap_figure
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.mechanism import FrameByFrame, Mechanism, arrays_of
from masquerade.noise import Noise, make_file_seed
from masquerade.recordings import Photo, Signal, Video
from masquerade.scores import AttackResult, MeasuredRate

_NUM_ROUNDS = 24  # guesses at a film, each nearer
_GREY_LEVEL = 128
_OUT_OF_RANGE_STEP = 32
_NEIGHBOURHOODS = ((3, 3, 3), (5, 9, 9), (9, 25, 25))  # frames, rows and columns
_MIN_KNOWN_SHARE = 1e-3  # share of them that must be known
_MEASURE_NAME = "error undone"


@dataclass(frozen=True, kw_only=True)
class SeedSubtraction(Attack):
    """Draw the noise of a rehearsal again and take it off what was written.

    A rehearsal's noise comes from a small number that stands in a script or a shell's history. With
    noise from the operating system there is no such number, and no guess of it helps.

    Files of a folder that was rehearsed at once have seeds that follow from the first and from
    their order: of several files those are tried as well, in the order of their names.

    Args:
        seed: that the attacker knows; None to try small ones.
        tries: seeds that are tried, from 0 on.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS, Medium.SIGNALS)
    KNOWN: ClassVar[Whose] = "nobody"

    seed: int | None = None
    tries: int = 32

    def __post_init__(self) -> None:
        _check.count(tries=self.tries)

    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """How much of a release's error is undone, of a rehearsal's, and of live noise's."""
        mechanism = case.mechanism
        if mechanism is None:
            raise BadInput(
                "Expected a receipt beside what was published: noise can only be drawn again by "
                "who knows the mechanism."
            )
        if mechanism.plan(case_shape(case.raw[0])).expected_error is None:
            raise BadInput(
                f"Expected a mechanism with noise, got {mechanism.name}, which has none."
            )
        secret = self.seed or 0
        worlds: tuple[Callable[[int], Recording], ...] = (
            lambda at: case.targets[at],
            lambda at: release_recording(case.raw[at], mechanism, Noise(seed=secret)),
            lambda at: release_recording(case.raw[at], mechanism, Noise()),
        )
        shares: list[list[float]] = []
        for at in range(len(case.raw)):
            seeds = self._list_seeds(at if len(case.raw) > 1 else None)
            shares.append(
                [
                    _measure_undone_share(world(at), case.raw[at], mechanism, seeds)
                    for world in worlds
                ]
            )
            told("subtracting", at + 1, len(case.raw))
        published, ceiling, floor = (
            _summarise_shares(np.array(column), case.seed) for column in zip(*shares, strict=True)
        )
        known = "knows the seed" if self.seed is not None else f"tries {self.tries} seeds"
        return (
            AttackResult(
                attack="seed_subtraction",
                attacker=f"{known} and the mechanism, {mechanism.name}",
                published=(published,),
                ceiling=(ceiling,),
                floor=(floor,),
                notes=(
                    "The ceiling is a rehearsal of the same recordings, the floor a release with "
                    "noise from the operating system.",
                    "A ledger refuses rehearsals, and their receipts promise nothing.",
                ),
            ),
        )

    def _list_seeds(self, place: int | None) -> list[int]:
        """Those that may be the one: of a file by itself, or at a place in a folder."""
        tried = range(self.tries) if self.seed is None else (self.seed,)
        in_folder = [] if place is None else [make_file_seed(each, place) for each in tried]
        return list(dict.fromkeys([*tried, *in_folder]))


def _measure_undone_share(
    published: Recording, raw: Recording, mechanism: Mechanism, seeds: Sequence[int]
) -> float:
    seed = seeds[0] if len(seeds) == 1 else find_likeliest_seed(published, mechanism, seeds)
    return error_undone(undo_release(published, mechanism, seed), published, raw)


def case_shape(recording: Recording) -> tuple[int, ...]:
    """The shape of what is released of a recording."""
    if isinstance(recording, Photo):
        raise BadInput("Expected videos or signals, got photos; release them as one-frame videos.")
    return arrays_of(recording)[0].shape


def release_recording(recording: Recording, mechanism: Mechanism, noise: Noise) -> Recording:
    """What a mechanism makes of a recording by this noise, frame by frame where it can be."""
    match recording:
        case Video(frames=frames):
            if isinstance(mechanism, FrameByFrame):
                made = np.stack(list(mechanism.stream(iter(frames), frames.shape, noise)))
            else:
                [made] = arrays_of(mechanism.apply(recording, noise))
            return replace(recording, frames=made)
        case Signal():
            [values] = arrays_of(mechanism.apply(recording, noise))
            return replace(recording, values=values)
        case _:
            raise BadInput("Expected videos or signals, got photos.")


def undo_release(published: Recording, mechanism: Mechanism, seed: int) -> Recording:
    """What was measured, if the noise came from this seed.

    Noise on a signal's numbers is drawn and subtracted. A film is rounded to bytes, and may be
    rebuilt from fewer numbers: so guesses at it are released by the same noise, and corrected by
    what they differ from the published film, until they give the same.
    """
    if isinstance(published, Signal):
        blank = replace(published, values=np.zeros_like(published.values))
        added = release_recording(blank, mechanism, Noise(seed=seed))
        values = published.values.astype(np.float64) - _list_values(added)
        return replace(published, values=values.astype(np.float32))
    if not isinstance(published, Video):
        raise BadInput("Expected videos or signals, got photos.")
    guess = np.full(published.frames.shape, _GREY_LEVEL, np.float32)
    for _ in range(_NUM_ROUNDS):
        tried = replace(published, frames=np.rint(guess).astype(np.uint8))
        given = _list_values(release_recording(tried, mechanism, Noise(seed=seed)))
        apart = published.frames.astype(np.float32) - given
        if not apart.any():
            break
        is_beyond = (given == 0) | (given == 255)  # nobody sees how far
        guess = np.clip(guess + apart + _OUT_OF_RANGE_STEP * np.sign(apart) * is_beyond, 0, 255)
    is_known = (published.frames > 0) & (published.frames < 255)
    return replace(published, frames=np.rint(_fill_unknown(guess, is_known)).astype(np.uint8))


def find_likeliest_seed(published: Recording, mechanism: Mechanism, seeds: Sequence[int]) -> int:
    """The seed whose noise is most like something in what was published.

    What was published is released again by each seed: what these releases do not share is noise.
    """
    again = [
        _list_values(release_recording(_prepare_again(published), mechanism, Noise(seed=seed)))
        for seed in seeds
    ]
    shared, wanted = np.mean(again, axis=0), _list_values(published)
    wanted = wanted - shared
    own = [each - shared for each in again]
    alike = [float((wanted * each).sum()) / (float(np.linalg.norm(each)) or 1.0) for each in own]
    return seeds[int(np.argmax(alike))]


def _fill_unknown(guess: np.ndarray, is_known: np.ndarray) -> np.ndarray:
    """Where a film is black or white noise went further than a byte does: others near by tell."""
    for size in _NEIGHBOURHOODS:
        weight, total = (
            ndimage.uniform_filter(each.astype(np.float32), (*size, 1), mode="nearest")
            for each in (is_known, guess * is_known)
        )
        is_new = ~is_known & (weight > _MIN_KNOWN_SHARE)
        guess = np.where(is_new, total / np.maximum(weight, _MIN_KNOWN_SHARE), guess)
        is_known = is_known | is_new
    return guess


def error_undone(guess: Recording, published: Recording, raw: Recording) -> float:
    """The share of the squared error of what was published that the guess does not have.

    Or of plain grey, where that is nearer to the truth. 1 if nothing is left of it; not below -1,
    however wrong the guess is.
    """
    truth = _list_values(raw)
    given, after = (
        float(np.square(_list_values(each) - truth).mean()) for each in (published, guess)
    )
    before = min(given, float(np.square(truth - truth.mean()).mean()))
    return 0.0 if before == after else max(-1.0, 1 - after / max(before, 1e-12))


def _list_values(recording: Recording) -> np.ndarray:
    case_shape(recording)  # says so if it is a photo
    return arrays_of(recording)[0].astype(np.float64)


def _prepare_again(published: Recording) -> Recording:
    """What was published, as it can be released again."""
    if isinstance(published, Signal):  # beyond the range that numbers are clamped to
        return replace(published, values=np.zeros_like(published.values))
    return published


def _summarise_shares(shares: np.ndarray, seed: int) -> MeasuredRate:
    names = range(len(shares))
    return bootstrap_figure(
        _MEASURE_NAME, lambda rows: float(shares[rows].mean()), names, of="recordings", seed=seed
    )
