"""Bring masks and recordings together: from a folder of mask files, or by a segmenter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from masquerade.collection import Collection, Labels
from masquerade.datasets.manifest import Manifest
from masquerade.datasets.mask_files import MaskFiles, MaskForm, Side
from masquerade.errors import BadInput
from masquerade.publish.collections import WrappedVideos
from masquerade.recordings import Video
from masquerade.training.views import PrivateSide, public_view

SEGMENTER, TABLE = "segmenter", "table"  # the words for them, where a folder could stand
THRESHOLD, MARGIN_PX = 0.7, 2
_MASK_FORMS = {
    MaskForm.PICTURES: "PNG files",
    MaskForm.ARRAY: "arrays",
    MaskForm.AVATAR: "an avatar's",
    MaskForm.FILM: "videos",
}
_AVATAR_MASKS = {
    "background": "of an avatar's masks only what is surely drawn (eroded_r) is public, and what "
    "its generator carried over from the private background is outside this guarantee",
    "person": "of an avatar's masks all that blending touched (q) is private",
}
_MASK_NOTES = {
    ("person", True): "the mask covers everything: nothing of them is public",
    ("person", False): "the mask is empty: nothing of them is private, and all is used",
    ("background", True): "the mask covers everything: nothing of them is private, and all is used",
    ("background", False): "the mask is empty: nothing of them is public",
}


class MaskMaker(Protocol):
    """Where masks come from."""

    IN_WORDS: ClassVar[str]

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse recordings, by their names, that will have no mask."""

    def make_mask(self, name: str, video: Video) -> np.ndarray:
        """(T, H, W) bool, True on people."""

    def describe_source(self) -> str:
        """The same in public words, once all were read."""


@dataclass(frozen=True, kw_only=True)
class FileMasks:
    """Masks of a folder."""

    IN_WORDS: ClassVar[str] = "from files"
    files: MaskFiles
    forms: Counter[MaskForm] = field(default_factory=Counter)
    made_by: set[str] = field(default_factory=set)

    def check_names(self, names: Sequence[str]) -> None:
        """One mask for each, and each of its own."""
        taken: dict[Path, str] = {}
        for name in names:
            other = taken.setdefault(self.files.find_mask_path(name), name)
            if other != name:
                raise BadInput(
                    f"Expected a mask for each recording, got one for {other} and {name}; rename "
                    "one of the two.",
                    is_public=True,
                )

    def make_mask(self, name: str, video: Video) -> np.ndarray:
        """From its file."""
        found = self.files.read_mask(name, video.frames.shape)
        self.forms[found.form] += 1
        self.made_by.update([found.made_by] if found.made_by else [])
        return found.person

    def describe_source(self) -> str:
        """Which kinds of files."""
        kinds = ", ".join(_MASK_FORMS[form] for form in MaskForm if form in self.forms)
        said = f"the masks, as files of the recordings' owner{f' ({kinds})' if kinds else ''}: "
        said += "what is not clearly on the public side counts as private"
        said += f"; {_AVATAR_MASKS[self.files.private]}" if MaskForm.AVATAR in self.forms else ""
        made = (describe_segmenter_masks(each, self.files.private) for each in sorted(self.made_by))
        return "; ".join([said, *made])


@dataclass(frozen=True, kw_only=True)
class SegmenterMasks:
    """Masks by public networks; each is made once, and kept as bits."""

    IN_WORDS: ClassVar[str] = "by a segmenter"
    segmenter: Any
    made: dict[str, np.ndarray] = field(default_factory=dict)

    def check_names(self, names: Sequence[str]) -> None:
        """Its networks must be at hand before anything private is read."""
        self.segmenter.load_networks()

    def make_mask(self, name: str, video: Video) -> np.ndarray:
        """From the frames."""
        if name not in self.made:
            self.made[name] = np.packbits(self.segmenter.segment_frames(video.frames), axis=2)
        width = video.frames.shape[2]
        return np.unpackbits(self.made[name], axis=2, count=width).astype(bool)

    def describe_source(self) -> str:
        """Which networks, and what they may miss."""
        return describe_segmenter_masks(self.segmenter.in_words, self.segmenter.private)


def describe_segmenter_masks(in_words: str, private: Side) -> str:
    """What a receipt says of masks that a segmenter made."""
    missed = {"person": "of a person", "background": "of the background"}[private]
    return (
        "the masks, which a segmenter computed from the private recordings themselves "
        f"({in_words}): they are taken as public although they depend on private pixels, and a "
        f"pixel {missed} that it missed is treated as public: it is used without noise, and "
        "nothing is promised for it"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskedVideos(WrappedVideos):
    """The videos of a collection, each with a mask.

    Args:
        maker: where masks come from.
        private: which side of them is.
    """

    maker: MaskMaker
    private: Side
    _full: dict[str, bool] = field(default_factory=dict, init=False)  # of masks of one value

    def __post_init__(self) -> None:
        about = self.unmasked.ABOUT
        said = replace(about, title=f"{about.title}, masks {self.maker.IN_WORDS}")
        object.__setattr__(self, "ABOUT", said)

    @property
    def mask_source(self) -> str:
        """Where the masks come from that were read so far."""
        return self.maker.describe_source()

    def list_mask_notes(self) -> list[str]:
        """Whose masks cover everything or nothing; masks are public, so it may be said."""
        found = Counter(self._full.values())
        return [
            f"In {found[is_full]} of {len(self)} recordings {_MASK_NOTES[self.private, is_full]}."
            for is_full in (True, False)
            if found[is_full]
        ]

    def _find(self) -> Sequence[Labels]:
        self.maker.check_names([known.name for known in self.unmasked.labels])
        return self.unmasked.labels

    def _load(self, index: int) -> Video:
        video, name = self.unmasked[index], self.labels[index].name
        if video.person_mask is not None:
            raise BadInput(
                "Expected --masks with recordings that have none, got "
                f"{self.unmasked.ABOUT.title}, which has its own; leave --masks out.",
                is_public=True,
            )
        mask = self.maker.make_mask(name, video)
        if mask.all() or not mask.any():
            self._full[name] = bool(mask.all())
        found: Video = replace(video, person_mask=mask)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class PartlyShown(WrappedVideos):
    """Videos with masks of which one side is grey, as a public part sees them.

    Args:
        private: the side that is not shown.
    """

    private: Side

    def _load(self, index: int) -> Video:
        video = self.unmasked[index]
        found: Video = replace(video, frames=public_view(video, PrivateSide(self.private)))
        return found


def with_masks(
    collection: Collection[Any],
    masks: str | Path,
    *,
    private: Side,
    threshold: float = THRESHOLD,
    margin_px: int = MARGIN_PX,
) -> MaskedVideos:
    """The videos of a data set with masks from elsewhere.

    Args:
        collection: of videos.
        masks: a folder (see `masquerade.datasets.mask_files`), the word segmenter, or the word
            table
            for those that a manifest's column mask names.
        private: which side of the masks is.
        threshold: how sure a segmenter must be of a pixel that is to count as public.
        margin_px: by which it makes the public side smaller.

    Raises:
        BadInput: if there is no such folder; when it is read, if a mask is missing or does not fit.
        MissingExtra: if a segmenter is asked for and cannot be run.
    """
    maker: MaskMaker
    if str(masks) == SEGMENTER:
        from masquerade.vision.person_detector import PersonSegmenter  # files need no network

        look = PersonSegmenter(private=private, threshold=threshold, margin_px=margin_px)
        maker = SegmenterMasks(segmenter=look)
    else:
        if (threshold, margin_px) != (THRESHOLD, MARGIN_PX):
            raise ValueError(
                "Expected no --mask-threshold and --mask-margin with mask files, which say "
                "themselves what is public; leave them out."
            )
        maker = FileMasks(files=_open_mask_files(collection, masks, private))
    return MaskedVideos(unmasked=collection, maker=maker, private=private)


def _open_mask_files(collection: Collection[Any], masks: str | Path, private: Side) -> MaskFiles:
    if str(masks) != TABLE:
        return MaskFiles(folder=Path(masks), private=private)
    if not isinstance(collection, Manifest):
        raise BadInput(
            f"Expected a manifest with --masks table, got {collection.ABOUT.title}; give a folder "
            "of masks.",
            is_public=True,
        )
    return MaskFiles(folder=collection.base_folder, private=private, named=collection.mask_paths)
