"""What is public about a data set: whose unit each recording is in, and what can be learned.

One message for whatever is wrong inside a private recording.

A run reads everything before it charges anybody, so such a fault stops it with nothing spent and
nothing written. That it stopped is a fact about private recordings, and stays with whoever ran it;
which recording it was, and what is in it, is not even said. A fault in what is public is named.

Records that are used without noise must not be among those that noise protects.

Several runs of one method with different fields: every one of them is paid for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import math
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check
from masquerade.collection import Collection, Medium
from masquerade.errors import BadInput
from masquerade.recordings import Photo, Signal, Video
from masquerade.training.method import Method

_FAULT_MESSAGE = (
    "Expected private recordings that can be used, got at least one that cannot; nothing was "
    "charged or written. To see which, for your eyes alone, with what follows --data here: "
    "masquerade data check NAME --recordings"
)


@contextlib.contextmanager
def hide_private_names() -> Iterator[None]:
    """Let a fault in a private recording name neither it nor what is in it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if getattr(error, "is_public", False):
            raise
        raise BadInput(_FAULT_MESSAGE) from None


def private_item(collection: Any, index: int) -> Any:
    """A private recording; whatever is wrong with it gives the one message."""
    with hide_private_names():
        return collection[index]


def owner_of(recording: Any, index: int, unit: str, what: str) -> str | int:
    """Its own number, or its subject where people are the units.

    Raises:
        BadInput: if nobody is named where somebody must be.
    """
    if unit != "subject":
        return index
    if recording.subject is None:
        raise BadInput(
            f"Expected to know who is in {what} for --unit subject, got nobody; choose another "
            "unit, or list the recordings in a manifest with a column subject."
        )
    return str(recording.subject)


def units_of(owners: Sequence[str | int]) -> tuple[int, ...]:
    """The number of each owner, in the order in which they come up.

    Example:
        >>> units_of(["b", "a", "b"])
        (0, 1, 0)
    """
    numbers = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return tuple(numbers[owner] for owner in owners)


def count_units(collection: Collection[Any], unit: str) -> int:
    """How many there are, by the lists alone; no recording is read."""
    if unit != "subject":
        return len(collection)
    people = {labels.subject for labels in collection.labels}
    if None in people:
        raise BadInput(
            "Expected to know who is in every recording for --unit subject, got some without; "
            "choose another unit, or list them in a manifest with a column subject."
        )
    return len(people)


def outputs_of(collection: Collection[Any], kind: Medium) -> tuple[str, ...]:
    """What a network's outputs mean: classes, or joints in photos; a public list.

    Raises:
        BadInput: if the data set has none.
    """
    if kind is not Medium.PHOTOS:
        return classes_of(collection)
    if not collection.joint_names:
        raise BadInput(f"Expected photos with joints to learn, got {collection.ABOUT.title}.")
    return collection.joint_names


def classes_of(collection: Collection[Any]) -> tuple[str, ...]:
    """The public list of classes.

    Raises:
        BadInput: if the data set has none.
    """
    if len(collection.activities) < 2:
        got = ", ".join(collection.activities) or "none"
        raise BadInput(
            f"Expected a data set with at least two activities to learn, got {got}; say what is "
            "done in its recordings, or add some of another activity."
        )
    return collection.activities


class PublicFingerprints:
    """Knows public records by their fingerprints, and refuses a private one that is among them.

    Args:
        public: the records that are used without noise.
        is_by_subject: whether people are protected, so that nobody may be in both parts.
    """

    def __init__(self, public: Sequence[Any], *, is_by_subject: bool) -> None:
        self._known = {pixels_sha256(one) for one in public}
        self._people = {one.subject for one in public} - {None} if is_by_subject else set()

    @property
    def sha256(self) -> str:
        """Over all of them: it says which public records a guarantee speaks of."""
        return hashlib.sha256("".join(sorted(self._known)).encode()).hexdigest()

    def refuse_public(self, private: Any) -> None:
        """Raise if it is one of the public records, or shows one of their people."""
        if pixels_sha256(private) in self._known:
            raise BadInput(
                "Expected public records that are not among the private ones, got one that is: its "
                "raw gradient would be used without noise. Leave it out of one of them."
            )
        if private.subject in self._people:
            raise BadInput(
                "Expected public records of other people than the private ones, got somebody who "
                "is in both; leave them out of one."
            )


def pixels_sha256(recording: Video | Photo | Signal) -> str:
    """A fingerprint of what a recording shows, whatever is known of it beside."""
    held: np.ndarray = next(
        getattr(recording, name)
        for name in ("frames", "image", "values")
        if hasattr(recording, name)
    )
    found = hashlib.sha256(repr((held.shape, str(held.dtype))).encode())
    found.update(np.ascontiguousarray(held).tobytes())
    return found.hexdigest()


_MAX_RUNS = 64
# one promise for all runs
_FIXED_FIELDS = ("unit", "relation", "delta", "class_weights", "private", "form")


def methods_of(method: Method, grid: str) -> list[tuple[dict[str, Any], Method]]:
    """Every combination of a grid's values: what is set, and the method with it.

    Args:
        method: with all other fields.
        grid: such as "learning_rate=0.1,0.5 clip_norm=0.5,1".

    Example:
        >>> from masquerade.training.methods import DpSgd
        >>> [chosen for chosen, _ in methods_of(DpSgd(epsilon=8.0, unit="video"), "batch=8,16")]
        [{'batch': 8}, {'batch': 16}]
    """
    axes = dict(_parse_axis(method, part) for part in grid.split())
    if not axes or len(axes) < len(grid.split()):
        raise ValueError(f"Expected different fields in --grid, got {grid!r}.")
    if math.prod(map(len, axes.values())) > _MAX_RUNS:
        raise ValueError(f"Expected at most {_MAX_RUNS} runs in --grid; every one is paid for.")
    found = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        found.append((chosen, dataclasses.replace(method, **chosen)))
    return found


def target_of(target: Path, number: int) -> Path:
    """Where the model of a run goes.

    Example:
        >>> target_of(Path("m.safetensors"), 2).name
        'm-2.safetensors'
    """
    return target.with_name(f"{target.stem}-{number}{target.suffix}")


def _parse_axis(method: Method, part: str) -> tuple[str, list[Any]]:
    name, equals, values = part.partition("=")
    hints = typing.get_type_hints(type(method))
    known = [f.name for f in dataclasses.fields(method) if f.name not in _FIXED_FIELDS]
    if name not in known:
        raise ValueError(_check.describe_unknown("field in --grid", name, known))
    kind = hints[name] if hints[name] in (int, float) else str
    try:
        found = [kind(value) for value in values.split(",")]
    except ValueError as error:
        raise ValueError(f"Expected {name}=VALUE,VALUE in --grid, got {part!r}.") from error
    if not equals or len(set(found)) < len(found):
        raise ValueError(f"Expected different values in --grid, got {part!r}.")
    return name, found
