"""VISPR: photographs with 68 labels of what they tell about people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets.recording_files import PhotoFiles, not_published, read_json, read_picture
from masquerade.errors import BadInput
from masquerade.recordings import Photo

Split = Literal["train", "val", "test"]
Subset = Literal["all", "seven"]

ATTRIBUTES = tuple(
    """a0_safe a1_age_approx a2_weight_approx a3_height_approx a4_gender a5_eye_color a6_hair_color
    a7_fingerprint a8_signature a9_face_complete a10_face_partial a11_tattoo a12_semi_nudity
    a13_full_nudity a16_race a17_color a18_ethnic_clothing a19_name_full a20_name_first
    a21_name_last a23_birth_city a24_birth_date a25_nationality a26_handwriting a27_marital_status
    a29_ausweis a30_credit_card a31_passport a32_drivers_license a33_student_id a35_mail
    a37_receipt a38_ticket a39_disability_physical a41_injury a43_medicine a46_occupation
    a48_occassion_work a49_phone a55_religion a56_sexual_orientation a57_culture a58_hobbies
    a59_sports a60_occassion_personal a61_opinion_general a62_opinion_political a64_rel_personal
    a65_rel_social a66_rel_professional a67_rel_competitors a68_rel_spectators a69_rel_views
    a70_education_history a73_landmark a74_address_current_complete a75_address_current_partial
    a78_address_home_complete a79_address_home_partial a82_date_time a85_username a90_email
    a92_email_content a97_online_conversation a99_legal_involvement a102_vehicle_ownership
    a103_license_plate_complete a104_license_plate_partial""".split()
)
SEVEN_ATTRIBUTES = tuple(
    """a4_gender a9_face_complete a10_face_partial a12_semi_nudity a17_color a64_rel_personal
    a65_rel_social""".split()
)
_OFFICIAL_SIZES = {"train": 10_000, "val": None, "test": 8_000}
_SOURCE = "papers that use it say 10,000, about 4,100 and 8,000"


@dataclass(frozen=True, kw_only=True)
class Vispr(PhotoFiles):
    """Photographs from Flickr with 67 private attributes and "safe" [orekondy2017].

    One JSON file a picture has its ``image_path`` and its ``labels``, the attributes that hold::

        root/
          annotations/train2017/2017_10665299.json
          images/train2017/2017_10665299.jpg

    What is not certain is the tree into which the archives unpack. The labels of a split are
    looked for in ``annotations/train2017``, ``train2017_annotation`` and ``train2017``, in that
    order; a picture at its ``image_path`` below the root, in ``images/train2017`` and in
    ``train2017``. The identifiers are spelled as published ("occassion").

    Args:
        root: the folder that holds either tree.
        split: of the publisher.
        subset: ``all`` 68 attributes, or the ``seven`` by which papers on private action
            recognition judge (gender, whole and partial face, semi-nudity, skin colour, personal
            and social relationship).
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="VISPR, Visual Privacy",
        kind=Medium.PHOTOS,
        licence="not stated; the pictures are from Flickr",
        home="https://tribhuvanesh.github.io/vpa",
        citation="orekondy2017",
    )

    split: Split = "test"
    subset: Subset = "all"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that every photo of this collection has, as 0 or 1."""
        return ATTRIBUTES if self.subset == "all" else SEVEN_ATTRIBUTES

    @property
    def publisher_counts(self) -> PublishedCounts:
        """The pictures of the split, each with a file of labels."""
        number = _OFFICIAL_SIZES[self.split], _SOURCE
        return {"label files": number, "picture files": number}

    def check(self) -> tuple[CountLine, ...]:
        """Count label files and their pictures."""
        pictures = [self._find_picture(path) for _, path, _ in self._label_entries]
        missing = [str(path) for path in pictures if not path.is_file()]
        return (
            self._count_line("label files", len(self._label_entries)),
            self._count_line("picture files", len(pictures) - len(missing), missing),
        )

    @property
    def _label_folder(self) -> Path:
        part = f"{self.split}2017"
        choices = [self.root / "annotations" / part, self.root / f"{part}_annotation"]
        choices.append(self.root / part)
        for folder in choices:
            if folder.is_dir() and next(folder.glob("*.json"), None) is not None:
                return folder
        raise BadInput(
            f"Expected label files (*.json) in one of {', '.join(map(str, choices))}; there are "
            "none. Check the root folder and the split."
        )

    @cached_property
    def _label_entries(self) -> tuple[tuple[str, str, frozenset[str]], ...]:
        """The stem of each label file, with the picture's path and the labels in it."""
        return tuple(
            (path.stem, *_read_labels(path)) for path in sorted(self._label_folder.glob("*.json"))
        )

    def _find(self) -> Sequence[Labels]:
        return [
            Labels(
                name=f"{self.split}2017/{stem}",
                attributes={name: int(name in held) for name in self.attributes},
            )
            for stem, _, held in self._label_entries
        ]

    def _find_picture(self, image_path: str) -> Path:
        """Where the picture is; where it should be if it is nowhere."""
        part, name = f"{self.split}2017", PurePosixPath(image_path).name
        choices = [self.root / "images" / part / name, self.root / part / name]
        if not PurePosixPath(image_path).is_absolute() and ".." not in image_path:
            choices.insert(0, self.root / image_path)
        return next((path for path in choices if path.is_file()), choices[0])

    def _load(self, index: int) -> Photo:
        _, image_path, _ = self._label_entries[index]
        return Photo(
            image=read_picture(self._find_picture(image_path)),
            attributes=self.labels[index].attributes,
        )


def _read_labels(path: Path) -> tuple[str, frozenset[str]]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise BadInput(f"Expected an object in {path}, got {type(content).__name__}.")
    image_path, held = content.get("image_path"), content.get("labels")
    if not isinstance(image_path, str) or not image_path:
        raise not_published(path, "the picture's path", "image_path", image_path)
    if not isinstance(held, list):
        raise not_published(path, "a list", "labels", held)
    for place, name in enumerate(held):
        if name not in ATTRIBUTES:
            raise BadInput(
                f"Expected one of the 68 attributes at labels[{place}] of {path}, got {name!r}; "
                "use version 1 of the data set."
            )
    return image_path, frozenset(held)
