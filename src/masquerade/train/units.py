"""What is public about a data set: whose unit each recording is in, and what can be learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.collection import Collection, Medium
from masquerade.errors import BadInput


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
