"""Measure a trained model on the test split of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade.cli.flags import Positional
from masquerade.collection import Collection
from masquerade.datasets.mask_files import Side
from masquerade.ledger import Ledger
from masquerade.progress import make_progress_bars, make_reporter
from masquerade.publish.collections import select_split
from masquerade.publish.evaluation import (
    Accuracy,
    Evaluation,
    PoseAccuracy,
    describe_pose_accuracy,
    encode_pose_accuracy,
    evaluate_file,
)
from masquerade.publish.masks import MARGIN_PX, SEGMENTER, THRESHOLD, PartlyShown, with_masks
from masquerade.result import CommandResult

_BAR_WIDTH = 40
_PRIVATE_NOTE = (
    "PRIVATE: computed from recordings that the model may have learned from; not covered by any "
    "epsilon; do not publish."
)
_HELD_OUT_NOTES = {
    "named": "That the model did not learn from these people is your word: its file does not say "
    "from whom it did.",
    "contents": "None of these is on the private list of what the model learned from; the same "
    "footage, cut or encoded anew, would not be known by it.",
}


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

    ENTRIES: ClassVar[tuple[tuple[str, str], ...]] = (("data", "datasets"),)

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

    def run(self, data: Collection[Any]) -> CommandResult:
        """Top-1, the mean over classes, and a bar for each class."""
        if not self.model:
            raise ValueError("Expected a model, a .safetensors file, got none; name one.")
        data = self._restrict_view(data)
        return CommandResult.merge_answers(
            {str(path): self._evaluate_model(path, data) for path in self.model}
        )

    def _evaluate_model(self, model: Path, data: Collection[Any]) -> CommandResult:
        with make_progress_bars() as progress:
            tell = make_reporter(progress)
            found = evaluate_file(
                model,
                data,
                private=self.private,
                ledger=None if self.ledger is None else Ledger(self.ledger),
                progress=lambda done, total: tell("testing", done, total),
            )
        return _format_evaluation(found, self.shown)

    def _restrict_view(self, data: Collection[Any]) -> Collection[Any]:
        """The recordings as the model is to see them."""
        if self.shown == "all":
            return data
        private: Side = "background" if self.shown == "people" else "person"
        test = select_split(data, "test")
        if self.masks is not None:
            ways = {"threshold": self.mask_threshold, "margin_px": self.mask_margin}
            test = with_masks(test, self.masks, private=private, **ways)  # type: ignore[arg-type]
        return PartlyShown(unmasked=test, private=private)


def _format_evaluation(found: Evaluation, view: str = "all") -> CommandResult:
    right = found.accuracy
    if isinstance(right, PoseAccuracy):
        figures = encode_pose_accuracy(right)
        said = [
            *describe_pose_accuracy(right),
            f"{found.recordings} photos of people, of the split {found.split}.",
        ]
    else:
        figures = {
            "top_1": right.top_1,
            "mean_per_class": right.mean_per_class,
            "per_class": right.per_class,
        }
        said = _format_accuracy(found, right, view)
    lines = [
        *([_PRIVATE_NOTE] if found.is_private else []),
        *said,
        *([_HELD_OUT_NOTES[found.held_out]] if found.held_out in _HELD_OUT_NOTES else []),
    ]
    data = figures | {
        "recordings": found.recordings,
        "split": found.split,
        "private": found.is_private,
        "held_out": found.held_out or None,
        "shown": view,
    }
    return CommandResult(data=data, lines=lines)


def _format_accuracy(found: Evaluation, model_accuracy: Accuracy, view: str) -> list[str]:
    """How often it is right, in words, with a bar for each class."""
    width = max(map(len, model_accuracy.per_class))
    return [
        f"Top-1 {model_accuracy.top_1:.4f}, mean over classes {model_accuracy.mean_per_class:.4f}, "
        f"{found.recordings} recordings of the split {found.split}"
        f"{'' if view == 'all' else f', of which only the {view} can be seen'}.",
        *(
            f"{name:{width}} {'#' * round(_BAR_WIDTH * share):{_BAR_WIDTH}} {share:.2f}"
            for name, share in model_accuracy.per_class.items()
        ),
    ]


COMMAND = Evaluate
