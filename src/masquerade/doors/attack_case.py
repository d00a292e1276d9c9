"""Tie published files to their recordings: what an attack is run on.

A file belongs to the recording of its name. What the receipt beside it says was done, the attacker
can do as well, to recordings of their own: in memory, by seeded noise, and nothing is published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.attack.attack import Whose
from masquerade.attack.case import Case, Each, Recording, Released
from masquerade.collection import Collection, Labels
from masquerade.doors.attack_published import (
    PublishedFiles,
    RecordingNames,
    files_in,
    released_by,
)
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism, arrays_of
from masquerade.noise import Noise
from masquerade.recordings import Photo, Signal, Video

_MOST_BYTES = 1 << 30  # of recordings that are kept; what is beyond is read again


@dataclass(frozen=True, kw_only=True, eq=False)
class Everybody(Sequence[Recording]):
    """Some recordings of a data set, of all its parts; kept once they were read, up to a limit.

    Args:
        places: the part and the number in it of each.
        held: those that were read.
    """

    places: Sequence[tuple[Collection[Any], int]]
    held: dict[tuple[str, int], Recording] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Collection[Any]) -> Everybody:
        """All of a data set, whichever part was chosen."""
        if not data.parts:
            parts = [data]
        elif "all" in data.parts:
            parts = [data.part("all")]
        else:
            parts = [data.part(name) for name in data.parts]
        return cls(places=[(part, number) for part in parts for number in range(len(part))])

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        part, number = self.places[index]
        key = part.part_name, number
        if key in self.held:
            return self.held[key]
        found: Recording = part[number]
        if sum(map(_size, self.held.values())) + _size(found) <= _MOST_BYTES:
            self.held[key] = found
        return found

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))

    @property
    def labels(self) -> list[Labels]:
        """What is known of each."""
        return [part.labels[number] for part, number in self.places]

    def some(self, numbers: Sequence[int]) -> Everybody:
        """Those of these numbers, in this order."""
        return replace(self, places=[self.places[number] for number in numbers])


def _size(recording: Recording) -> int:
    match recording:
        case Video(frames=frames, person_mask=mask):
            return frames.nbytes + (0 if mask is None else mask.nbytes)
        case Photo(image=image):
            return image.nbytes
        case Signal(values=values):
            return values.nbytes


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What an attacker has.

    Args:
        whose: recordings they are.
        holds: recordings at most, chosen by chance; all that there are if None.
        seed: of the choice, and of all else that is random in the attack.
    """

    whose: Whose = "other people"
    holds: int | None = None
    seed: int = 0


def of_files(published: Sequence[Path], data: Collection[Any], knowledge: Knowledge) -> Case:
    """The case of published files, with their receipts where they have any.

    Args:
        published: files, or folders of them.
        data: the data set whose recordings they were made from, of whichever part.
        knowledge: what the attacker has.

    Raises:
        BadInput: if a file cannot be read, belongs to no recording, or was changed since its
            release; it is named.
    """
    files, everybody = files_in(published), Everybody.of(data)
    names = RecordingNames.of(everybody.labels)
    numbers = [names.number(path, root) for path, root in files]
    if len(set(numbers)) < len(numbers):
        twice = next(each for at, each in enumerate(numbers) if each in numbers[:at])
        raise BadInput(
            f"Expected one published file of a recording, got several of "
            f"{everybody.labels[twice].name}; attack them one after the other."
        )
    mechanism = released_by([path for path, _ in files])
    raw = everybody.some(numbers)
    return Case(
        known=_known(everybody, numbers, knowledge),
        targets=PublishedFiles(paths=[path for path, _ in files], raw=raw),
        raw=raw,
        release=None if mechanism is None else in_memory(mechanism, seed=knowledge.seed),
        mechanism=mechanism,
        seed=knowledge.seed,
    )


def of_mechanism(mechanism: Mechanism, data: Collection[Any], knowledge: Knowledge) -> Case:
    """The case of a part of a data set, released in memory; nothing is published.

    The part is the one that was chosen, else that for tests. An attacker who holds recordings of
    the same people or places holds every other one of each; the rest is released.
    """
    everybody = Everybody.of(data)
    wanted = {each.name for each in data.unless_chosen("test").labels}
    numbers = [at for at, each in enumerate(everybody.labels) if each.name in wanted]
    numbers = _left_to_publish(everybody, numbers, knowledge.whose)
    raw, release = everybody.some(numbers), in_memory(mechanism, seed=knowledge.seed)
    return Case(
        known=_known(everybody, numbers, knowledge),
        targets=Each(raw, release),
        raw=raw,
        release=release,
        mechanism=mechanism,
        seed=knowledge.seed,
    )


def _left_to_publish(everybody: Everybody, numbers: list[int], whose: Whose) -> list[int]:
    label = {"same people": "subject", "same places": "place"}.get(whose)
    if label is None:
        return numbers
    labels, groups = everybody.labels, dict[str, list[int]]()
    for number in numbers:
        groups.setdefault(str(getattr(labels[number], label)), []).append(number)
    left = sorted(number for group in groups.values() for number in group[1::2])
    if numbers and not left:
        raise BadInput(
            f"Expected two recordings of one {'person' if label == 'subject' else label} at least, "
            "one for the attacker and one to release, got one of each; take more recordings, or "
            "fewer people or places."
        )
    return left


def in_memory(mechanism: Mechanism, *, seed: int) -> Released:
    """What a mechanism makes of a recording; of the same one always the same."""

    def release(recording: Recording) -> Recording:
        noise = Noise(seed=_seed(recording, seed))
        if isinstance(recording, Photo):
            made = mechanism.apply(Video(frames=recording.image[None], rate_hz=1.0), noise)
            return replace(recording, image=arrays_of(made)[0][0])
        [values] = arrays_of(mechanism.apply(recording, noise))
        if isinstance(recording, Signal):
            return replace(recording, values=values.astype(np.float32))
        return replace(recording, frames=values)

    return release


def _seed(recording: Recording, seed: int) -> int:
    values = recording.image if isinstance(recording, Photo) else arrays_of(recording)[0]
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes())
    digest.update(seed.to_bytes(8, "big", signed=True))
    return int.from_bytes(digest.digest()[:6], "big")


_THEIRS: dict[Whose, str] = {
    "same people": "the same people",
    "same places": "the same places",
    "other people": "other people",
    "nobody": "nobody",
}


def _known(everybody: Everybody, published: Sequence[int], knowledge: Knowledge) -> Everybody:
    """The attacker's own recordings: never one of those that were published."""
    labels, out = everybody.labels, set(published)
    is_theirs = _whose(knowledge.whose, [labels[number] for number in published])
    found = [number for number, each in enumerate(labels) if number not in out and is_theirs(each)]
    if not found and knowledge.whose != "nobody":
        raise BadInput(
            f"Expected recordings of {_THEIRS[knowledge.whose]} beside the {len(out)} published "
            "ones for the attacker to hold, got none; publish some of their recordings only."
        )
    rng = np.random.default_rng(knowledge.seed)
    some = sorted(rng.permutation(len(found))[: knowledge.holds].tolist())
    return everybody.some([found[at] for at in some])


def _whose(whose: Whose, published: Sequence[Labels]) -> Callable[[Labels], bool]:
    people = {each.subject for each in published} - {None}
    places = {each.place for each in published} - {None}
    match whose:
        case "other people":
            return lambda one: one.subject not in people
        case "same people":
            return lambda one: one.subject in people
        case "same places":
            return lambda one: one.place in places
        case "nobody":
            return lambda one: False
