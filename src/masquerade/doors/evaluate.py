"""Measure a trained model on the test split of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from tyro.conf import Positional

from masquerade.collection import Collection, Medium
from masquerade.compute.progress import bars, teller
from masquerade.data.mask_files import Side
from masquerade.doors import Answer
from masquerade.doors.evaluate_pose import (
    PoseAccuracy,
    data_of_pose,
    pose_accuracy,
    said_of_pose,
)
from masquerade.doors.learned import count_learned, learned_path
from masquerade.doors.masks import MARGIN_PX, SEGMENTER, THRESHOLD, PartlyShown, with_masks
from masquerade.doors.receipt import check_receipt
from masquerade.doors.splits import held_out_by, photos_of, split_of, unmasked
from masquerade.errors import BadInput
from masquerade.ledger import Content, Ledger
from masquerade.nets.network import Network
from masquerade.receipt import Receipt
from masquerade.train import films, worn
from masquerade.train.model_file import load_model
from masquerade.train.units import outputs_of

_BAR = 40
_NAMES = 8
_PRIVATE = (
    "PRIVATE: computed from recordings that the model may have learned from; not covered by any "
    "epsilon; do not publish."
)
_HELD_OUT = {
    "named": "That the model did not learn from these people is your word: its file does not say "
    "from whom it did.",
    "contents": "None of these is on the private list of what the model learned from; the same "
    "footage, cut or encoded anew, would not be known by it.",
}


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How often a model is right.

    Args:
        top_1: share of recordings.
        per_class: share of each class that has recordings, by name.
    """

    top_1: float
    per_class: dict[str, float]

    @property
    def mean_per_class(self) -> float:
        """The mean over classes, however many recordings each has."""
        return float(np.mean(list(self.per_class.values())))


def accuracy(
    net: Any,
    network: Network,
    collection: Collection[Any],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Accuracy:
    """Test a network on every recording's middle segment, or every window of one activity."""
    test = worn.guesses if network.KIND is Medium.SIGNALS else films.guesses
    found, right = test(net.eval(), network, collection, progress=progress)
    is_right = found == right
    per_class = {
        name: float(is_right[right == number].mean())
        for number, name in enumerate(collection.activities)
        if (right == number).any()
    }
    return Accuracy(top_1=float(is_right.mean()), per_class=per_class)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How often a model is right, on what, and who may be told.

    Args:
        accuracy: the figures; of joints where the model finds them.
        recordings: that it was tested on.
        split: of the data set.
        held_out: why the model did not learn from them: made up, contents (none is on its private
            list), split, or named by the caller; empty where it may have.
        is_private: whether no epsilon covers the figures, which then stay in the house.
    """

    accuracy: Accuracy | PoseAccuracy
    recordings: int
    split: str
    held_out: str
    is_private: bool


def evaluate_file(
    model: Path | str,
    collection: Collection[Any],
    *,
    private: bool = False,
    ledger: Ledger | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Test a model that `train_file` or `teach_file` wrote on a data set's test split.

    Args:
        model: the .safetensors file.
        collection: the data set; a split that it names is taken instead of the test split.
        private: test on recordings that the model may have learned from as well.
        ledger: recordings in an account of it are refused like those that were learned from.
        progress: called with how many are tested, and of how many.

    Raises:
        BadInput: if the model may have learned from the recordings and ``private`` is not said, or
            if its classes are not those of the data set.
    """
    receipt = check_receipt(model)  # before anything is made of its bytes
    net, network, names, said = load_model(Path(model))
    if network.KIND is Medium.SIGNALS:
        test = collection.of_kind(Medium.SIGNALS).unless_chosen("test")
    elif network.KIND is Medium.PHOTOS:
        test = photos_of(collection, "test")
    else:
        test = split_of(collection, "test")
    held_out, is_protected = _judge(Path(model), receipt, test, said, ledger, private=private)
    if names != outputs_of(test, network.KIND):
        what = "joints" if network.KIND is Medium.PHOTOS else "classes"
        more = ", ..." * (len(names) > _NAMES)
        raise BadInput(
            f"Expected the {what} of the model, in its order ({', '.join(names[:_NAMES])}{more}), "
            "got a data set with others; of manifest and folder --classes gives the list."
        )
    measure: Any = pose_accuracy if network.KIND is Medium.PHOTOS else accuracy
    return Evaluation(
        accuracy=measure(net, network, test, progress=progress),
        recordings=len(test),
        split=test.part_name,
        held_out=held_out,
        is_private=not held_out or is_protected,
    )


def _judge(
    model: Path,
    receipt: Receipt,
    test: Collection[Any],
    said: dict[str, Any],
    ledger: Ledger | None,
    *,
    private: bool,
) -> tuple[str, bool]:
    """Why the model did not learn from these recordings, and whether a ledger protects some.

    Raises:
        BadInput: if it may have, or if some are protected, unless ``private`` is said.
    """
    is_listed = learned_path(model).is_file() and not test.ABOUT.is_made_up
    is_asked = ledger is not None or is_listed
    contents = [Content.of(each) for each in unmasked(test)] if is_asked else []
    count = count_learned(model, receipt, contents) if is_listed else None
    held_out = held_out_by(test, said, learned_from=count)
    protected = 0 if ledger is None else ledger.count_members(contents)
    if protected and not private:
        raise BadInput(
            f"Expected recordings of nobody whom this ledger protects, got {protected} that "
            "are in an account; test on others, or say --private and publish nothing."
        )
    if not held_out and not private:
        seen = f"of which it has learned from {count}" if count else "of which it may have seen all"
        raise BadInput(
            f"Expected recordings that the model did not learn from, got the split "
            f"{test.part_name}, {seen}; give a test split, or --subjects that were left out, or "
            "say --private and publish nothing."
        )
    return held_out, bool(protected)


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Test a model that `masquerade train` wrote on a data set's test split.

    Exact accuracy on recordings that a model learned from is covered by no epsilon, so they are
    refused unless --private is said.

    Example:
        masquerade evaluate model.safetensors --data stage

    Args:
        model: the .safetensors file, or several.
        private: test on recordings that the model may have learned from; what is printed is not
            to be published.
        ledger: a path, or postgresql://...; recordings in an account of it are refused likewise.
        masks: as with train: a folder, or the word segmenter; with --shown.
        shown: what of the recordings the model sees; people or background with --masks, and the
            rest is grey, as the public part of a method saw it.
        mask_threshold: for --masks segmenter: how sure it must be of a pixel that is shown.
        mask_margin: for --masks segmenter: pixels by which what is shown is made smaller.
    """

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("data", "data"),)

    model: Positional[tuple[Path, ...]]
    private: bool = False
    ledger: str | None = None
    masks: str | None = None
    shown: Literal["all", "people", "background"] = "all"
    mask_threshold: float = THRESHOLD
    mask_margin: int = MARGIN_PX

    def __post_init__(self) -> None:
        if self.masks is not None and self.shown == "all":
            raise ValueError(
                "Expected --shown people or --shown background with --masks, which are of no use "
                "where all is shown; say which, or leave --masks out."
            )
        if self.masks != SEGMENTER and (self.mask_threshold, self.mask_margin) != (
            THRESHOLD,
            MARGIN_PX,
        ):
            raise ValueError(
                "Expected no --mask-threshold and --mask-margin with masks that no segmenter "
                "makes; leave them out."
            )

    def run(self, data: Collection[Any]) -> Answer:
        """Top-1, the mean over classes, and a bar for each class."""
        if not self.model:
            raise ValueError("Expected a model, a .safetensors file, got none; name one.")
        data = self._seen(data)
        return Answer.of_each({str(path): self._one(path, data) for path in self.model})

    def _one(self, model: Path, data: Collection[Any]) -> Answer:
        with bars() as progress:
            tell = teller(progress)
            found = evaluate_file(
                model,
                data,
                private=self.private,
                ledger=None if self.ledger is None else Ledger(self.ledger),
                progress=lambda done, total: tell("testing", done, total),
            )
        return _answer(found, self.shown)

    def _seen(self, data: Collection[Any]) -> Collection[Any]:
        """The recordings as the model is to see them."""
        if self.shown == "all":
            return data
        private: Side = "background" if self.shown == "people" else "person"
        test = split_of(data, "test")
        if self.masks is not None:
            ways = {"threshold": self.mask_threshold, "margin_px": self.mask_margin}
            test = with_masks(test, self.masks, private=private, **ways)  # type: ignore[arg-type]
        return PartlyShown(unmasked=test, private=private)


def _answer(found: Evaluation, seen: str = "all") -> Answer:
    right = found.accuracy
    if isinstance(right, PoseAccuracy):
        figures = data_of_pose(right)
        said = [
            *said_of_pose(right),
            f"{found.recordings} photos of people, of the split {found.split}.",
        ]
    else:
        figures = {
            "top_1": right.top_1,
            "mean_per_class": right.mean_per_class,
            "per_class": right.per_class,
        }
        said = _bars(found, right, seen)
    lines = [
        *([_PRIVATE] if found.is_private else []),
        *said,
        *([_HELD_OUT[found.held_out]] if found.held_out in _HELD_OUT else []),
    ]
    data = figures | {
        "recordings": found.recordings,
        "split": found.split,
        "private": found.is_private,
        "held_out": found.held_out or None,
        "shown": seen,
    }
    return Answer(data=data, lines=lines)


def _bars(found: Evaluation, right: Accuracy, seen: str) -> list[str]:
    """How often it is right, in words, with a bar for each class."""
    width = max(map(len, right.per_class))
    return [
        f"Top-1 {right.top_1:.4f}, mean over classes {right.mean_per_class:.4f}, "
        f"{found.recordings} recordings of the split {found.split}"
        f"{'' if seen == 'all' else f', of which only the {seen} can be seen'}.",
        *(
            f"{name:{width}} {'#' * round(_BAR * share):{_BAR}} {share:.2f}"
            for name, share in right.per_class.items()
        ),
    ]


COMMAND = Evaluate
