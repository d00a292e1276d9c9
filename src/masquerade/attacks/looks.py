"""What people look like: the questions, the pictures and the networks that learned the answers.

Networks that have learned what people look like; kept, since learning takes most of the time.

Yes-or-no labels from what is known of recordings: what an onlooker is asked about people.

Stage says what somebody looks like in words, such as skin_tone: dark; every word becomes a label,
but one of two words says both. VISPR [orekondy2017] has 0 or 1 for each attribute, PA-HMDB51
[wu2020] a number a frame that is 0 where nobody can tell. Where an attacker learned from the first
and looks at the second, both are asked about what they share, the five attributes of PA-HMDB51.

Pictures of people for an attacker to look at: squares out of some frames of recordings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from masquerade import _check
from masquerade._optional import torch
from masquerade.attacks.attack import Recording
from masquerade.errors import BadInput
from masquerade.io import devices
from masquerade.networks import without_privacy
from masquerade.networks.picture_crops import CROP_PX, crop_person, find_person_square
from masquerade.networks.without_privacy import TrainingCourse
from masquerade.recordings import Attributes, Photo, Signal
from masquerade.vision import embedding_cache

KnownLabels: TypeAlias = Mapping[str, str | int]

WORD_ATTRIBUTES = ("skin_tone", "gender", "face", "build", "hair", "clothing")
_ATTRIBUTE_GROUPS = {
    "skin_color": ("a17_color",),
    "face": ("a9_face_complete", "a10_face_partial"),
    "gender": ("a4_gender",),
    "nudity": ("a12_semi_nudity",),
    "relationship": ("a64_rel_personal", "a65_rel_social"),
}
_VISPR_NAME = re.compile(r"a\d+_\w+")


@dataclass(frozen=True, kw_only=True)
class AppearanceQuestion:
    """One yes-or-no question: whether an attribute has a value."""

    attribute: str
    value: str | int

    def __str__(self) -> str:
        return self.attribute if self.value == 1 else f"{self.attribute}: {self.value}"

    def is_true_for(self, told: KnownLabels) -> bool:
        """The answer, of somebody of whom the attribute is known."""
        return told[self.attribute] == self.value


def read_labels_at(attributes: Attributes, frame: int) -> dict[str, str | int]:
    """What is known about people at one frame; what is not is left out.

    Example:
        >>> read_labels_at({"face": (0, 2, -1), "gender": (1, 1, 3)}, 1)
        {'face': 1, 'gender': 1}
        >>> read_labels_at({"a9_face_complete": 0, "a10_face_partial": 1}, 0)["face"]
        1
    """
    found: dict[str, str | int] = {}
    for name, value in attributes.items():
        if isinstance(value, tuple):
            at = value[frame] if frame < len(value) else -1
            if name in _ATTRIBUTE_GROUPS and at >= 0:
                found[name] = int(at > 0)
        elif name in WORD_ATTRIBUTES or name in _ATTRIBUTE_GROUPS or _VISPR_NAME.fullmatch(name):
            found[name] = value
    for name, names in _ATTRIBUTE_GROUPS.items():
        known = [found[each] for each in names if each in found]
        if known and name not in found:
            found[name] = int(any(known))
    return found


def list_questions(
    known: Sequence[KnownLabels], targets: Sequence[KnownLabels], names: Sequence[str]
) -> list[AppearanceQuestion]:
    """What can be asked: attributes that both sides have, and that vary on both.

    Args:
        known: of the attacker's own records.
        targets: of what was published.
        names: of the attributes that are wanted; all if empty.

    Raises:
        BadInput: if nothing can be asked.
        ValueError: if a wanted attribute is not there.
    """
    both = _find_common_attributes(known) & _find_common_attributes(targets)
    if any(_VISPR_NAME.fullmatch(name) for name in both):
        both -= {
            name for name, parts in _ATTRIBUTE_GROUPS.items() if both & set(parts)
        }  # said twice else
    for name in names:
        if name not in both:
            raise ValueError(_check.describe_unknown("attribute", name, sorted(both)))
    asked = []
    for name in sorted(names or both):
        values = sorted({told[name] for told in known}, key=str)
        wanted = values[1:] if len(values) == 2 else values
        asked += [AppearanceQuestion(attribute=name, value=value) for value in wanted]
    found = [
        one for one in asked if _has_both_answers(one, known) and _has_both_answers(one, targets)
    ]
    if not found:
        raise BadInput(
            "Expected attributes of people that both the attacker's recordings and the published "
            f"ones have and that vary in both, got {', '.join(sorted(both)) or 'none'}; take a "
            "data set that has them (stage, vispr, pa_hmdb51), and publish more people."
        )
    return found


def _find_common_attributes(told: Sequence[KnownLabels]) -> set[str]:
    return set.intersection(*(set(each) for each in told)) if told else set()


def _has_both_answers(asked: AppearanceQuestion, told: Sequence[KnownLabels]) -> bool:
    return len({asked.is_true_for(each) for each in told}) == 2


_WHOLE_FRAME = (0.5, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureSet:
    """What an attacker sees of recordings, and the truth.

    Args:
        squares: (N, 3, 64, 64) uint8.
        of: (N,) the number of each square's recording.
        told: N times, what is true about who is seen.
        whose: N times, the person, or the recording where the person is not known.
    """

    squares: np.ndarray
    of: np.ndarray
    told: Sequence[KnownLabels]
    whose: list[str]


def has_person_location(recording: Recording) -> bool:
    """Whether it is known where the person is."""
    if isinstance(recording, Signal):
        return False
    joints = recording.joints
    return joints is not None and bool(np.isfinite(joints).any())


def crop_pictures(
    recordings: Iterable[Recording],
    *,
    each: int,
    is_near: bool,
    progress: Callable[[int], None],
) -> PictureSet:
    """Some squares of every recording, spread over its frames; of frames without labels none.

    Args:
        recordings: videos or photos, read one at a time.
        each: squares of a video; a photo has one.
        is_near: whether squares are around the person, as their joints say; else whole frames.
        progress: called with how many are read.
    """
    squares, of, told, whose = [], [], [], []
    for number, recording in enumerate(recordings):
        frames, joints = _read_frames(recording)
        count = min(each, len(frames))
        spread = np.linspace(0, len(frames) - 1, count).round().astype(int).tolist()
        known = {frame: read_labels_at(recording.attributes, frame) for frame in spread}
        some = [frame for frame in spread if known[frame]]
        if some:
            near = joints[some] if is_near and joints is not None else None
            squares.append(_crop_squares(frames[some], near))
            of += [number] * len(some)
            told += [known[frame] for frame in some]
            whose += [recording.subject or f"recording {number}"] * len(some)
        progress(number + 1)
    if not squares:
        raise BadInput(
            "Expected recordings of which it is known what people look like, got none; take a "
            "data set that has such labels (stage, vispr, pa_hmdb51)."
        )
    return PictureSet(squares=np.concatenate(squares), of=np.array(of), told=told, whose=whose)


def _read_frames(recording: Recording) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(recording, Photo):
        joints = None if recording.joints is None else recording.joints[None]
        return recording.image[None], joints
    if isinstance(recording, Signal):
        raise BadInput("Expected videos or photos to look at, got a signal; take another kind.")
    return recording.frames, recording.joints


def _crop_squares(frames: np.ndarray, joints: np.ndarray | None) -> np.ndarray:
    """(K, 3, 64, 64): around joints (K, J, 2), or of whole frames, continued to a square."""
    height, width = frames.shape[1:3]
    side = max(height, width)
    edges = ((0, 0), (0, side - height), (0, side - width), (0, 0))
    pixels = torch.from_numpy(np.pad(frames, edges, mode="edge")).permute(0, 3, 1, 2).float()
    boxes = np.tile(np.array(_WHOLE_FRAME), (len(frames), 1))
    if joints is not None:
        is_seen = np.isfinite(joints).all(axis=2).any(axis=1)
        boxes[is_seen] = find_person_square(joints[is_seen], side)
    return _as_bytes(_shrink_squares(pixels, torch.from_numpy(boxes).float()))


def _shrink_squares(pixels: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Squares, of frames that were made smaller first where one would skip pixels."""
    most = int(boxes[:, 2].max().item() * pixels.shape[-1] // CROP_PX)
    if most > 1:
        pixels = torch.nn.functional.avg_pool2d(pixels, most, ceil_mode=True)
    return crop_person(pixels, boxes)


def _as_bytes(values: torch.Tensor) -> np.ndarray:
    found: np.ndarray = values.round().clamp(0, 255).to(torch.uint8).numpy()
    return found


LooksNetwork: TypeAlias = Literal["conv", "efficientnet_lite0"]

_PICTURES_PER_BATCH = 64
_TRAINING_VERSION = 1  # another one where the same lessons would teach something else


@dataclass(frozen=True, kw_only=True)
class AppearanceTraining:
    """How a network learns to answer yes-or-no questions about people.

    What it learned is kept in the private cache, by all that it was shown: the next attack with the
    same lessons takes no time to learn.

    Args:
        network: conv looks at squares, efficientnet_lite0 at what that network made of them.
        steps: of learning, in batches of 64 pictures.
        seed: of the weights at the start, and of the order of pictures.
    """

    network: LooksNetwork
    steps: int
    seed: int

    def train_classifier(
        self, inputs: np.ndarray, answers: np.ndarray, *, told: Callable[[int, int], None]
    ) -> torch.nn.Module:
        """A network that has learned, on the processor.

        Args:
            inputs: (N, ...) what the network takes.
            answers: (N, L) bool.
            told: called with the steps done and their total.
        """
        kept = embedding_cache.read_or_make(
            (inputs, answers),
            fingerprint=f"looks {_TRAINING_VERSION} {self}",
            make=lambda: _flatten_weights(self._train_on_device(inputs, answers, told)),
        )
        return _load_weights(self._make_classifier(inputs, answers), kept)

    def _train_on_device(
        self, inputs: np.ndarray, answers: np.ndarray, told: Callable[[int, int], None]
    ) -> torch.nn.Module:
        """On the chosen device; it comes back from there."""
        course = TrainingCourse(
            epochs=math.ceil(self.steps / math.ceil(len(inputs) / _PICTURES_PER_BATCH)),
            batch=_PICTURES_PER_BATCH,
            rate=3e-3,
            flips=self.network == "conv",
            shifts=4 if self.network == "conv" else 0,
            seed=self.seed,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            net = self._make_classifier(inputs, answers).to(devices.device_name())
            without_privacy.train_plainly(
                net,
                inputs,
                answers.astype(np.float32),
                course=course,
                progress=told,
                loss=without_privacy.compute_binary_loss,
            )
        return net.cpu()

    def _make_classifier(self, inputs: np.ndarray, answers: np.ndarray) -> torch.nn.Module:
        if self.network == "conv":
            from masquerade.networks.small_networks import make_classifier

            return make_classifier(axes=2, channels=3, classes=answers.shape[1])
        size = inputs.shape[1]
        return torch.nn.Sequential(
            torch.nn.LayerNorm(size), torch.nn.Dropout(0.2), torch.nn.Linear(size, answers.shape[1])
        )


def _flatten_weights(net: torch.nn.Module) -> np.ndarray:
    """All weights, one after the other."""
    return np.concatenate([each.detach().numpy().ravel() for each in net.parameters()])


def _load_weights(net: torch.nn.Module, weights: np.ndarray) -> torch.nn.Module:
    """The network with those weights, ready to be asked."""
    start = 0
    with torch.no_grad():
        for each in net.parameters():
            some = weights[start : start + each.numel()].reshape(tuple(each.shape))
            each.copy_(torch.from_numpy(some))
            start += each.numel()
    return net.eval()
