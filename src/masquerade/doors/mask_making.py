"""Make masks once, as files that can be looked at and used again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from tyro.conf import Positional

from masquerade.collection import Collection, Medium
from masquerade.compute.progress import bars
from masquerade.data import mask_files
from masquerade.doors import Answer
from masquerade.doors.masks import MARGIN_PX, THRESHOLD
from masquerade.errors import BadInput
from masquerade.files import atomic


@dataclass(frozen=True, kw_only=True)
class MakeMasks:
    """Make masks of people in a data set's videos with a segmenter, for --masks.

    They show where people are, so they are private until you take them as public. Masks that stand
    already are kept.

    Args:
        out: a folder for NAME.masks.npz; it is made.
        side: the side of the masks that will be private, on which doubt falls.
        mask_threshold: how sure the segmenter must be of a pixel that is to be public.
        mask_margin: pixels by which the public side is made smaller.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "data")

    out: Positional[Path]
    side: Literal["background", "person"]
    mask_threshold: float = THRESHOLD
    mask_margin: int = MARGIN_PX

    def run(self, entry: Collection[Any]) -> Answer:
        """One recording after the other."""
        from masquerade.sight.person_segmenter import PersonSegmenter  # needs an extra

        if entry.kind is not Medium.VIDEOS or entry.ABOUT.is_made_up:
            raise BadInput(f"Expected videos without masks of their own, got {entry.ABOUT.title}.")
        segmenter = PersonSegmenter(
            private=self.side, threshold=self.mask_threshold, margin_px=self.mask_margin
        )
        segmenter.ready()
        made = 0
        with bars() as progress:
            task = progress.add_task("making masks", total=len(entry))
            for index, known in enumerate(entry.labels):
                target = self._target(known.name)
                if not target.exists():
                    mask = segmenter.masks(entry[index].frames)
                    data = mask_files.packed(mask, private=self.side, made_by=segmenter.in_words)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    atomic.write_whole(target, data, is_private=True)
                    made += 1
                progress.advance(task)
        said = f"Made {made} masks in {self.out}, for {self.side} private; "
        said += f"{len(entry) - made} stood already. Look at them before you use them: a private "
        said += "pixel that was missed is used without noise."
        return Answer(data={"made": made, "stood": len(entry) - made}, lines=[said])

    def _target(self, name: str) -> Path:
        stem = PurePosixPath(name).with_suffix("")
        if stem.is_absolute() or ".." in stem.parts:
            raise BadInput(f"Expected a recording's name below its folder, got {name!r}.")
        return self.out / f"{stem}.masks.npz"
