"""What an attack is run on: published files tied to their recordings, or a model.

A model's file as what is attacked: who was learned from?

Train models like one that was published, on other halves of the recordings, for an attack.

Published files: which there are, what their receipts say, and whose recordings they are.

Tie published files to their recordings: what an attack is run on.

A file belongs to the recording of its name. What the receipt beside it says was done, the attacker
can do as well, to recordings of their own: in memory, by seeded noise, and nothing is published.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from masquerade._optional import torch
from masquerade.accounting.power import false_negative_rate
from masquerade.attacks.attack import (
    Case,
    MappedRecordings,
    ModelCase,
    ProgressCallback,
    Recording,
    ReleaseFunction,
    TrainFunction,
    Whose,
    ignore_progress,
)
from masquerade.collection import Collection, Labels, Medium
from masquerade.errors import BadInput
from masquerade.guarantee import Relation
from masquerade.io import arrays
from masquerade.io.video import read
from masquerade.mechanism import Mechanism, arrays_of
from masquerade.networks.network import Network
from masquerade.noise import Noise
from masquerade.publish.collections import describe_public_part, select_split
from masquerade.publish.receipts import check_receipt, make_promise
from masquerade.publish.sources import SUFFIXES
from masquerade.publish.spine import rehearsal_name
from masquerade.receipt import SUFFIX, Receipt, receipt_path
from masquerade.recordings import Photo, Signal, Video
from masquerade.tradeoff import compute_max_power
from masquerade.training import learner, loop
from masquerade.training.learner import MemorySettings, TrainedNetwork, load_model
from masquerade.training.method import Method, make_training_plan
from masquerade.training.methods import DpSgd
from masquerade.training.rows import FilmReader, Rows
from masquerade.training.units import count_units

_OVERFITTING = DpSgd(
    epsilon=math.inf,
    unit="video",
    clip_norm=100.0,
    optimiser="adam",
    learning_rate=0.01,
    epochs=200.0,
    batch=64,
)
_BATCH_SIZE = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class ShadowTraining:
    """Trains the part of a network that is not frozen, on what the frozen part gave once.

    Where a method has a public view all recordings stay in the run with it, and whoever is no
    member has that view in place of the private one as well: private pixels are what is protected.

    Args:
        rows: of all units.
        method: how it is trained.
        network: whose part.
        classes: there are.
        always: (A, k) rows of units that every model learns from.
        physical: units whose gradients are computed at once.
    """

    rows: Rows
    method: Method
    network: Network
    classes: int
    always: np.ndarray | None = None
    physical: int = 64

    def __call__(self, members: np.ndarray, seed: int) -> np.ndarray:
        """(R, K) outputs for all rows of a model that learned from these units."""
        return compute_outputs(self.train_on_members(members), self.rows)

    def train_on_members(self, members: np.ndarray) -> torch.nn.Module:
        """The part that is not frozen, after it has learned from these units."""
        rows = self._select_rows(members)
        net = self.network.make(self.classes, seed=self.method.public_seed)
        tail: torch.nn.Module = self.network.split(net.to(rows.targets.device), self.method.part)[1]
        work = loop.Workload(physical=min(self.physical, rows.num_units))
        plan = make_training_plan(self.method, rows.num_units)
        run = partial(
            loop.run_training, noise=Noise(), work=work, progress=lambda done, total: None
        )
        run(tail, rows, self.method, plan)
        return tail

    def _select_rows(self, members: np.ndarray) -> Rows:
        rows, slots = self.rows, self.rows.slots
        if self.method.HAS_PUBLIC and rows.public is not None:
            hidden = slots[~members]
            private = rows.private.clone()
            private[hidden[hidden >= 0]] = rows.public[hidden[hidden >= 0]]
            return replace(rows, private=private)
        kept = slots[members]
        if self.always is not None:
            kept = np.concatenate([kept, self.always])
        return replace(rows, slots=kept, public=None)

    def make_overfitting(self) -> TrainFunction:
        """The same part, trained without noise and for long: it must leak."""
        method = replace(_OVERFITTING, part=self.method.part, public_seed=self.method.public_seed)
        return replace(self, method=method, rows=replace(self.rows, public=None), always=None)


def compute_outputs(tail: torch.nn.Module, rows: Rows) -> np.ndarray:
    """(R, K) before the softmax, for the rows of all units in order."""
    at, _ = list_unit_rows(rows)
    with torch.no_grad():
        parts = [
            tail(rows.private[some].to(rows.targets.device)).float().cpu().numpy()
            for some in torch.from_numpy(at).split(_BATCH_SIZE)
        ]
    return np.concatenate(parts)


def list_unit_rows(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The rows that belong to somebody, and the unit of each."""
    unit, place = np.nonzero(rows.slots >= 0)
    return rows.slots[unit, place], unit


_OPAQUE_NAME = re.compile("[0-9a-f]{16}")
_REHEARSAL_SUFFIX = rehearsal_name(Path("a.b")).suffixes[0]


def list_files_in(published: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Published files, each with the folder from which its name counts.

    Raises:
        BadInput: if there is none, or one of no kind that we know.
    """
    found: list[tuple[Path, Path]] = []
    for path in published:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if _is_published(each, path))
            found += [(each, path) for each in inside]
        else:
            found.append((path, path.parent))
    for path, _ in found:
        if not path.is_file():
            raise BadInput(f"Expected a published file at {path}; there is none.")
        if path.suffix.lower() not in SUFFIXES:
            raise BadInput(
                f"Expected published recordings ({' '.join(SUFFIXES)}), got {path}; move it away, "
                "or name the files."
            )
    if not found:
        raise BadInput(
            f"Expected published recordings in {', '.join(map(str, published))}, got none."
        )
    return found


def _is_published(path: Path, folder: Path) -> bool:
    """Not a folder, nothing hidden, and no receipt or signature of another file."""
    is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not is_hidden and SUFFIX not in path.name


def find_mechanism(files: Sequence[Path]) -> Mechanism | None:
    """The one mechanism that their receipts name; None where no file has a receipt.

    Raises:
        BadInput: if only some have one, if they do not agree, or if a file was changed.
    """
    without = [path for path in files if not receipt_path(path).is_file()]
    if len(without) == len(files):
        return None
    if without:
        raise BadInput(
            f"Expected a receipt beside every file or none, got none beside {without[0]}; put it "
            "back, or attack these files by themselves."
        )
    receipts = [check_receipt(path) for path in files]
    first = receipts[0]
    for path, receipt in zip(files, receipts, strict=True):
        if (receipt.mechanism, receipt.fields) != (first.mechanism, first.fields):
            raise BadInput(
                f"Expected files that were released in one way, got {first.mechanism} for "
                f"{files[0].name} and {receipt.mechanism} with other fields for {path}; attack "
                "them one after the other."
            )
    made: Mechanism = make_promise(first)
    return made


@dataclass(frozen=True, kw_only=True)
class RecordingNames:
    """Recordings by the ends of their names, without suffixes."""

    known: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def from_labels(cls, labels: Sequence[Labels]) -> RecordingNames:
        """Every end of every name."""
        known: dict[str, list[int]] = {}
        for number, each in enumerate(labels):
            parts = _strip_suffixes(PurePosixPath(each.name)).parts
            for start in range(len(parts)):
                known.setdefault("/".join(parts[start:]), []).append(number)
        return cls(known=known)

    def find_number(self, path: Path, root: Path) -> int:
        """The recording that a file was made from: the one whose name ends like the file's."""
        own = _strip_suffixes(PurePosixPath(path.relative_to(root).as_posix())).parts
        for start in range(len(own)):
            found = self.known.get("/".join(own[start:]), [])
            if len(found) == 1:
                return found[0]
            if found:
                raise BadInput(
                    f"Expected a name that one recording of the data set has, got {path}, which "
                    f"{len(found)} have; publish them in folders, as the data set does."
                )
        if _OPAQUE_NAME.fullmatch(own[-1]):
            raise BadInput(
                f"Expected a file named as its recording, got the opaque name {path.name}: nobody "
                "can tell what it was made from. For a test, release with --keep-names."
            )
        raise BadInput(
            f"Expected a file named as a recording of the data set, got {path}; check --data and "
            "its fields, and that names were kept (--keep-names)."
        )


def _strip_suffixes(path: PurePosixPath) -> PurePosixPath:
    """Without what tells the kind of file, and that it is a rehearsal."""
    bare = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return bare.with_suffix("") if bare.suffix == _REHEARSAL_SUFFIX else bare


class PublishedFiles(Sequence[Recording]):
    """Published files with what is true about them, read one at a time."""

    def __init__(self, *, paths: Sequence[Path], raw: Sequence[Recording]) -> None:
        self._paths, self._raw = paths, raw

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        path, raw = self._paths[index], self._raw[index]
        match raw:
            case Video():
                frames = read.read_whole(path)[0]
                return replace(raw, frames=_check_shape(frames, raw.frames, path))
            case Photo():
                [image] = read.read_whole(path)[0][:1]
                return replace(raw, image=_check_shape(image, raw.image, path))
            case Signal():
                values = np.asarray(arrays.read_array_file(path).arrays[0]).astype(np.float32)
                return replace(raw, values=_check_shape(values, raw.values, path))

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


def _check_shape(published: np.ndarray, raw: np.ndarray, path: Path) -> np.ndarray:
    if published.shape != raw.shape:
        raise BadInput(
            f"Expected {path} to be of the shape of its recording, {raw.shape}, got "
            f"{published.shape}; check --data and its fields."
        )
    return published


_MAX_BYTES = 1 << 30  # of recordings that are kept; what is beyond is read again


@dataclass(frozen=True, kw_only=True, eq=False)
class AllRecordings(Sequence[Recording]):
    """Some recordings of a data set, of all its parts; kept once they were read, up to a limit.

    Args:
        places: the part and the number in it of each.
        held: those that were read.
    """

    places: Sequence[tuple[Collection[Any], int]]
    held: dict[tuple[str, int], Recording] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Collection[Any]) -> AllRecordings:
        """All of a data set, whichever part was chosen."""
        if not data.parts:
            parts = [data]
        elif "all" in data.parts:
            parts = [data.select_part("all")]
        else:
            parts = [data.select_part(name) for name in data.parts]
        return cls(places=[(part, number) for part in parts for number in range(len(part))])

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        part, number = self.places[index]
        key = part.part_name, number
        if key in self.held:
            return self.held[key]
        found: Recording = part[number]
        if sum(map(_count_bytes, self.held.values())) + _count_bytes(found) <= _MAX_BYTES:
            self.held[key] = found
        return found

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))

    @property
    def labels(self) -> list[Labels]:
        """What is known of each."""
        return [part.labels[number] for part, number in self.places]

    def select_numbers(self, numbers: Sequence[int]) -> AllRecordings:
        """Those of these numbers, in this order."""
        return replace(self, places=[self.places[number] for number in numbers])


def _count_bytes(recording: Recording) -> int:
    match recording:
        case Video(frames=frames, person_mask=mask):
            return frames.nbytes + (0 if mask is None else mask.nbytes)
        case Photo(image=image):
            return image.nbytes
        case Signal(values=values):
            return values.nbytes


@dataclass(frozen=True, kw_only=True)
class AttackerKnowledge:
    """What an attacker has.

    Args:
        whose: recordings they are.
        holds: recordings at most, chosen by chance; all that there are if None.
        seed: of the choice, and of all else that is random in the attack.
    """

    whose: Whose = "other people"
    holds: int | None = None
    seed: int = 0


def make_file_case(
    published: Sequence[Path], data: Collection[Any], knowledge: AttackerKnowledge
) -> Case:
    """The case of published files, with their receipts where they have any.

    Args:
        published: files, or folders of them.
        data: the data set whose recordings they were made from, of whichever part.
        knowledge: what the attacker has.

    Raises:
        BadInput: if a file cannot be read, belongs to no recording, or was changed since its
            release; it is named.
    """
    files, everybody = list_files_in(published), AllRecordings.from_data(data)
    names = RecordingNames.from_labels(everybody.labels)
    numbers = [names.find_number(path, root) for path, root in files]
    if len(set(numbers)) < len(numbers):
        twice = next(each for at, each in enumerate(numbers) if each in numbers[:at])
        raise BadInput(
            f"Expected one published file of a recording, got several of "
            f"{everybody.labels[twice].name}; attack them one after the other."
        )
    mechanism = find_mechanism([path for path, _ in files])
    raw = everybody.select_numbers(numbers)
    return Case(
        known=_select_known(everybody, numbers, knowledge),
        targets=PublishedFiles(paths=[path for path, _ in files], raw=raw),
        raw=raw,
        release=None if mechanism is None else make_memory_release(mechanism, seed=knowledge.seed),
        mechanism=mechanism,
        seed=knowledge.seed,
    )


def make_mechanism_case(
    mechanism: Mechanism, data: Collection[Any], knowledge: AttackerKnowledge
) -> Case:
    """The case of a part of a data set, released in memory; nothing is published.

    The part is the one that was chosen, else that for tests. An attacker who holds recordings of
    the same people or places holds every other one of each; the rest is released.
    """
    everybody = AllRecordings.from_data(data)
    wanted = {each.name for each in data.select_default_part("test").labels}
    numbers = [at for at, each in enumerate(everybody.labels) if each.name in wanted]
    numbers = _select_targets(everybody, numbers, knowledge.whose)
    raw, release = (
        everybody.select_numbers(numbers),
        make_memory_release(mechanism, seed=knowledge.seed),
    )
    return Case(
        known=_select_known(everybody, numbers, knowledge),
        targets=MappedRecordings(raw, release),
        raw=raw,
        release=release,
        mechanism=mechanism,
        seed=knowledge.seed,
    )


def _select_targets(everybody: AllRecordings, numbers: list[int], whose: Whose) -> list[int]:
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


def make_memory_release(mechanism: Mechanism, *, seed: int) -> ReleaseFunction:
    """What a mechanism makes of a recording; of the same one always the same."""

    def release_in_memory(recording: Recording) -> Recording:
        noise = Noise(seed=_derive_seed(recording, seed))
        if isinstance(recording, Photo):
            made = mechanism.apply(Video(frames=recording.image[None], rate_hz=1.0), noise)
            return replace(recording, image=arrays_of(made)[0][0])
        [values] = arrays_of(mechanism.apply(recording, noise))
        if isinstance(recording, Signal):
            return replace(recording, values=values.astype(np.float32))
        return replace(recording, frames=values)

    return release_in_memory


def _derive_seed(recording: Recording, seed: int) -> int:
    values = recording.image if isinstance(recording, Photo) else arrays_of(recording)[0]
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes())
    digest.update(seed.to_bytes(8, "big", signed=True))
    return int.from_bytes(digest.digest()[:6], "big")


_WHOSE_WORDS: dict[Whose, str] = {
    "same people": "the same people",
    "same places": "the same places",
    "other people": "other people",
    "nobody": "nobody",
}


def _select_known(
    everybody: AllRecordings, published: Sequence[int], knowledge: AttackerKnowledge
) -> AllRecordings:
    """The attacker's own recordings: never one of those that were published."""
    labels, out = everybody.labels, set(published)
    is_theirs = _make_relation_test(knowledge.whose, [labels[number] for number in published])
    found = [number for number, each in enumerate(labels) if number not in out and is_theirs(each)]
    if not found and knowledge.whose != "nobody":
        raise BadInput(
            f"Expected recordings of {_WHOSE_WORDS[knowledge.whose]} beside the {len(out)} "
            "published "
            "ones for the attacker to hold, got none; publish some of their recordings only."
        )
    rng = np.random.default_rng(knowledge.seed)
    some = sorted(rng.permutation(len(found))[: knowledge.holds].tolist())
    return everybody.select_numbers([found[at] for at in some])


def _make_relation_test(whose: Whose, published: Sequence[Labels]) -> Callable[[Labels], bool]:
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


def make_model_case(
    model: Path | str,
    data: Collection[Any],
    *,
    seed: int = 0,
    told: ProgressCallback = ignore_progress,
) -> ModelCase:
    """A published model, with units that it learned from and as many others.

    It learned from the training split of the data set and not from the test split. Units of the
    larger of both are chosen by chance; those of the training split that are not asked for are in
    every shadow model, so that these learn from as many as the published one did.

    Args:
        model: the .safetensors file, its receipt beside it.
        data: the data set that it learned from.
        seed: of all that is random in the attack.
        told: called with what is done, how far, and of how much.

    Raises:
        BadInput: if the model is of another data set, or cannot be trained again like that.
    """
    path = Path(model)
    receipt, trained = check_receipt(path), load_model(path)
    method = _method_of(receipt, trained)
    taught, tested = (select_split(data.select_part(name), name) for name in ("train", "test"))
    _check_same(taught, trained, receipt, method)
    inside, outside = (_read_unit_rows(each, method, trained, told) for each in (taught, tested))
    rng = np.random.default_rng(seed)
    rows, always = _balance_rows(inside, outside, rng=rng)
    training = ShadowTraining(
        rows=rows,
        method=method,
        network=trained.network,
        classes=len(trained.classes),
        always=always,
    )
    at, whose = list_unit_rows(rows)
    _, tail = trained.network.split(trained.net, method.part)
    return ModelCase(
        targets=rows.targets.numpy()[at],
        whose=whose,
        learn=training,
        overfit=training.make_overfitting(),
        outputs=compute_outputs(tail, rows),
        members=np.arange(rows.num_units) < rows.num_units // 2,
        allowed=_make_ceiling(receipt, method, inside.num_units),
        of="people" if method.unit == "subject" else "recordings",
        seed=seed,
    )


def _method_of(receipt: Receipt, trained: TrainedNetwork) -> Method:
    method = make_promise(receipt)
    if not isinstance(method, Method) or method.HAS_PUBLIC or trained.network.KIND != Medium.VIDEOS:
        raise BadInput(
            f"Expected a model of videos by a method that learns from whole recordings, got "
            f"{receipt.mechanism}: see python -m experiments mask_dp or tempdiff --membership."
        )
    return method


def _check_same(
    taught: Collection[Any], trained: TrainedNetwork, receipt: Receipt, method: Method
) -> None:
    said, own = trained.said.get("learned"), describe_public_part(taught)
    if said and own and said != own:
        raise BadInput(
            f"Expected the data set that the model learned from, {said}, got {own}; check --data "
            "and its fields."
        )
    if trained.classes != taught.activities:
        raise BadInput("Expected the classes of the model, got a data set with others.")
    units = count_units(taught, str(method.unit))
    if receipt.shapes[0][0] != units:
        raise BadInput(
            f"Expected the {receipt.shapes[0][0]} units that the model learned from, got a data "
            f"set with {units}; check --data and its fields."
        )


def _read_unit_rows(
    data: Collection[Any], method: Method, trained: TrainedNetwork, told: ProgressCallback
) -> Rows:
    reader = FilmReader(method, trained.network, trained.classes)
    trunk, _ = trained.network.split(trained.net, method.part)
    with learner.rows_of(data, reader, trunk, memory=MemorySettings(), tell=told) as (rows, _):
        return Rows(
            private=rows.private.clone(), public=None, targets=rows.targets, slots=rows.slots
        )


def _balance_rows(
    inside: Rows, outside: Rows, *, rng: np.random.Generator
) -> tuple[Rows, np.ndarray]:
    """As many units of both sides, one side after the other, and the slots of the rest within."""
    count = min(inside.num_units, outside.num_units)
    order, others = (rng.permutation(each.num_units) for each in (inside, outside))
    width = max(inside.slots.shape[1], outside.slots.shape[1])
    first = _pad_slots(inside.slots, width)
    second = _pad_slots(outside.slots, width)
    second = np.where(second >= 0, second + len(inside.private), -1)
    rows = Rows(
        private=torch.cat([inside.private, outside.private]),
        public=None,
        targets=torch.cat([inside.targets, outside.targets]),
        slots=np.concatenate([first[order[:count]], second[others[:count]]]),
    )
    return rows, first[order[count:]]


def _pad_slots(slots: np.ndarray, width: int) -> np.ndarray:
    return np.pad(slots, ((0, 0), (0, width - slots.shape[1])), constant_values=-1)


def _make_ceiling(receipt: Receipt, method: Method, units: int) -> Any:
    """By the receipt's event, for a unit in place of which there was another."""
    if receipt.is_rehearsal or receipt.guarantee.epsilon is None:
        return None
    relation, event = Relation.REPLACE_ONE, receipt.dp_event
    epsilon = make_training_plan(method, units).compute_epsilon(relation)

    def max_success(rate: float) -> float:
        missed = false_negative_rate(rate, event, relation=relation)
        return min(
            1 - missed,
            compute_max_power(rate, epsilon=epsilon, delta=method.delta, is_gaussian=False),
        )

    return max_success
