"""Private training in plain sequence: read every recording, know the cost, then learn.

What a run costs is known from the number of units, before it learns anything. Whoever publishes the
model reserves the budget between `read_recordings` and `TrainingRun.learn`.

Where the frozen trunk's output for private recordings is kept, which is as private as they are.

It is held in memory up to a limit, beyond it in a folder that only its owner can read and that is
removed at the end.

A trained model as a file of safetensors, and read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, torch
from masquerade.collection import Collection, Medium
from masquerade.errors import BadInput
from masquerade.mechanism import Shapes
from masquerade.networks.network import Network, make_described_network
from masquerade.noise import Noise
from masquerade.recordings import Signal
from masquerade.training import loop, worn
from masquerade.training.guide import set_aside
from masquerade.training.method import (
    Method,
    Precision,
    PromiseWithPublic,
    TrainingPromise,
    check_pairing,
    make_training_plan,
    with_public,
)
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import FilmReader, PoseReader, Rows, is_unknown, slots_of
from masquerade.training.units import (
    PublicFingerprints,
    outputs_of,
    owner_of,
    private_item,
    units_of,
)
from masquerade.training.views import OF_WHOLE
from masquerade.training.worn import SignalReader

files = lazy_module("safetensors.torch", extra="train")

safetensors = lazy_module("safetensors", extra="train")


class TrainedNetwork(NamedTuple):
    """A trained network, the entry that it was made by, its classes, and what its file says."""

    net: Any
    network: Network
    classes: tuple[str, ...]
    said: dict[str, Any]


def encode_model(
    net: Any, network: Network, classes: tuple[str, ...], more: dict[str, Any]
) -> bytes:
    """A network's weights, with all that must be said of it.

    Args:
        net: the trained network.
        network: that it was made by.
        classes: what its outputs mean.
        more: of what it learned, in public words.
    """
    said = network.file_fields | {network.OUTPUTS: classes} | network.describe_net(net) | more
    tensors = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    # one key: with several their order would differ from file to file
    data: bytes = files.save(tensors, metadata={"masquerade": json.dumps(said)})
    return data


def read_model_fields(path: Path) -> dict[str, Any]:
    """What a model's file says of it."""
    with _refuse_foreign_files(path), safetensors.safe_open(path, framework="pt") as held:
        return dict(json.loads((held.metadata() or {})["masquerade"]))


def load_model(path: Path) -> TrainedNetwork:
    """A model that `masquerade train` wrote."""
    said = read_model_fields(path)
    with _refuse_foreign_files(path):
        network = make_described_network(said)
        return TrainedNetwork(network.load(path, said), network, tuple(said[network.OUTPUTS]), said)


@contextlib.contextmanager
def _refuse_foreign_files(path: Path) -> Iterator[None]:
    try:
        yield
    except BadInput:
        raise
    except (
        safetensors.SafetensorError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
        OSError,
    ) as error:
        raise BadInput(f"Expected a model of ours in {path}, got {error}.") from error


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """Where the trunk's output is kept.

    Args:
        most_mb: in memory; more goes to disk.
        folder: on disk; the system's folder for temporary files if None.
        is_kept: whether the file stays. It is as private as the recordings.
        device: where the trunk runs and the rows lie.
        precision: in which the trunk runs; bfloat16 on a GPU alone.
    """

    most_mb: int = 4096
    folder: Path | None = None
    is_kept: bool = False
    device: str = "cpu"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        _check.not_negative(most_mb=self.most_mb)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(_check.describe_unknown("device", self.device, ("cpu", "cuda")))
        if self.precision not in get_args(Precision):
            raise ValueError(
                _check.describe_unknown("precision", self.precision, get_args(Precision))
            )
        if self.precision == "bfloat16" and self.device != "cuda":
            raise ValueError("Expected device=cuda for precision=bfloat16; use precision=float32.")


class RowSink:
    """Collects rows in memory, or in a private file where they are too many.

    Args:
        rows: that will be added in all.
        memory: where.
    """

    def __init__(self, rows: int, memory: MemorySettings) -> None:
        self._rows, self._memory, self._next = rows, memory, 0
        self._held: Any = None
        self._folder: Path | None = None

    def add_rows(self, some: Any) -> None:
        """The next rows."""
        if self._held is None:
            self._held = self._allocate_rows(some)
        self._held[self._next : self._next + len(some)] = some.to(self._held.device)
        self._next += len(some)

    def read_tensor(self) -> Any:
        """All of them."""
        return self._held

    def close(self) -> None:
        """Let go of them, and remove the file."""
        self._held = None
        if self._folder is not None and not self._memory.is_kept:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _allocate_rows(self, some: Any) -> Any:
        shape = (self._rows, *some.shape[1:])
        size_mb = some[0].numel() * 4 * self._rows / 2**20
        if size_mb <= self._memory.most_mb:
            return torch.empty(shape, device=self._memory.device)
        self._folder = Path(tempfile.mkdtemp(prefix="masquerade-", dir=self._memory.folder))
        file = self._folder / "private-activations.npy"
        held = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
        return torch.from_numpy(held)


Reader: TypeAlias = FilmReader | SignalReader | PoseReader
ProgressCallback: TypeAlias = Callable[[str, int, int], None]  # what is done, how far, of how much


@dataclass(frozen=True, kw_only=True)
class ComputeSettings:
    """How the work is done; nothing here changes what is promised."""

    memory: MemorySettings = field(default_factory=MemorySettings)
    work: loop.Workload = field(default_factory=loop.Workload)

    @property
    def precision(self) -> Precision:
        """The lower one of both."""
        return self.work.precision if self.memory.precision == "float32" else self.memory.precision


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRun:
    """Recordings that were read, and a run over them that can begin.

    Args:
        method: how it learns.
        plan: what it does and costs.
        rows: that it learns from. Private.
        units: the unit of each recording.
        marks: fingerprints of public masks, pictures and records, where they are used, and where
            masks and classes come from, if that is not public by itself.
        sheet: (H, W, 3) public pictures to be looked at, where there are some.
        net: the network as it began; it is trained in place.
        tail: the part of it that is trained.
        work: how the run is worked off.
        tell: is told how far it is.
    """

    method: Method
    plan: TrainingPlan
    rows: Rows
    units: tuple[int, ...]
    marks: Mapping[str, str]
    sheet: np.ndarray | None
    net: Any
    tail: Any
    work: loop.Workload
    tell: ProgressCallback

    @property
    def shapes(self) -> Shapes:
        """The public number of units."""
        return ((self.rows.num_units,),)

    @property
    def promise(self) -> TrainingPromise | PromiseWithPublic:
        """What the receipt is made from."""
        return with_public(self.method, self.marks)

    def learn(self, noise: Noise) -> Any:
        """The trained network."""
        loop.run_training(
            self.tail,
            self.rows,
            self.method,
            self.plan,
            noise=noise,
            work=self.work,
            progress=lambda done, total: self.tell("training", done, total),
        )
        return self.net


@contextlib.contextmanager
def read_recordings(
    collection: Collection[Any],
    method: Method,
    network: Network,
    *,
    public: Collection[Any] | Sequence[Signal] = (),
    ways: ComputeSettings | None = None,
    tell: ProgressCallback = lambda what, done, total: None,
) -> Iterator[TrainingRun]:
    """Read every recording once; what is kept on disk is removed afterwards.

    Args:
        collection: the private training recordings.
        method: how they are learned from.
        network: what is trained.
        public: recordings of other people, used without noise: by worn sensors, and by methods
            that learn in a subspace.
        ways: how the work is done.
        tell: called with what is done, how far, and of how much.
    """
    ways = ways or ComputeSettings()
    names = outputs_of(collection, network.KIND)
    if method.class_weights and len(method.class_weights) != len(names):
        raise ValueError(
            f"Expected class_weights for {len(names)} classes, got {len(method.class_weights)}."
        )
    check_pairing(method, network, ways.precision)
    known = worn.public_signals(public, network) if network.KIND is Medium.SIGNALS else ()
    reader = _make_reader(method, network, names, known)
    net = network.make(len(names), seed=method.public_seed, public=known)
    begun = _hash_first_weights(net, network) if ways.work.checkpoint else ""
    trunk, tail = network.split(net.to(ways.memory.device), method.part)
    marks = hashlib.sha256() if ways.work.checkpoint else None
    aside = set_aside(public, method, names, network.KIND)
    apart = aside.apart if aside else None
    with contextlib.ExitStack() as held:
        guide = None
        if aside:
            whole = _make_reader(aside.seen_by, network, names, ())
            some = rows_of(aside.records, whole, trunk, memory=ways.memory, tell=tell, marks=marks)
            guide = held.enter_context(some)[0]
        rows, units = held.enter_context(
            rows_of(
                collection,
                reader,
                trunk,
                memory=ways.memory,
                tell=tell,
                marks=marks,
                apart=apart,
            )
        )
        rows = replace(rows, guide=guide)
        loop.check_network(tail, rows, method)  # as the loop will, before anybody is charged
        name = f"{ways.work.name} {begun} {marks.hexdigest()}" if marks else ""
        yield TrainingRun(
            method=method,
            plan=make_training_plan(method, rows.num_units),
            rows=rows,
            units=units,
            marks=_list_fingerprints(reader, apart, collection),
            sheet=reader.shown.sheet if reader.shown else None,
            net=net,
            tail=tail,
            work=replace(ways.work, name=name),
            tell=tell,
        )


def _make_reader(
    method: Method, network: Network, names: Sequence[str], known: Sequence[Signal]
) -> Reader:
    """What makes rows of recordings of the network's kind."""
    if network.KIND is Medium.SIGNALS:
        return SignalReader(method, network, names, known)
    return (
        PoseReader(method, names)
        if network.KIND is Medium.PHOTOS
        else FilmReader(method, network, names)
    )


@contextlib.contextmanager
def rows_of(
    collection: Collection[Any],
    reader: Reader,
    trunk: Any,
    *,
    memory: MemorySettings,
    tell: ProgressCallback = lambda what, done, total: None,
    marks: Any | None = None,
    apart: PublicFingerprints | None = None,
) -> Iterator[tuple[Rows, tuple[int, ...]]]:
    """What a frozen trunk gives for every recording, and the unit of each.

    Args:
        collection: of private recordings.
        reader: makes of each what the trunk is given.
        trunk: what is frozen and comes first.
        memory: where its output is kept until this ends.
        tell: called with what is done, how far, and of how much.
        marks: a hash that takes in every recording as it is read.
        apart: of public records, which none of these may be among.
    """
    method, sinks = reader.method, dict[str, RowSink]()
    targets: list[Any] = []
    owners: list[str | int] = []
    try:
        for index in range(len(collection)):
            recording = private_item(collection, index)
            if apart is not None:
                apart.refuse_public(recording)
            if marks is not None:
                marks.update(_hash_recording(recording))
            views, wanted = reader.make_training_rows(recording)
            for view, inputs in views.items():
                sink = sinks.setdefault(view, RowSink(len(collection) * method.segments, memory))
                with torch.no_grad(), loop.lower_precision(memory.device, memory.precision):
                    sink.add_rows(trunk(inputs.to(memory.device)))
            targets += wanted
            name = collection.labels[index].name
            owners.append(owner_of(recording, index, str(method.unit), name))
            tell("reading", index + 1, len(collection))
        most = method.recordings if method.unit == "subject" else 1
        slots = slots_of(owners, segments=method.segments, most=most)
        is_empty = is_unknown(np.array(targets))
        yield (
            Rows(
                private=sinks["private"].read_tensor(),
                public=sinks["public"].read_tensor() if method.HAS_PUBLIC else None,
                targets=torch.from_numpy(np.array(targets)).to(memory.device).clamp(min=0),
                slots=np.where((slots >= 0) & is_empty[np.maximum(slots, 0)], -1, slots),
            ),
            units_of(owners),
        )
    finally:
        for sink in sinks.values():
            sink.close()


def _list_fingerprints(
    reader: Reader, apart: PublicFingerprints | None, collection: Collection[Any]
) -> dict[str, str]:
    """What is public, as a receipt names it."""
    found = {
        "mask_sha256": reader.mask_sha256,
        "mask_source": collection.mask_source if reader.mask_sha256 else "",
        "class_source": "" if isinstance(reader, PoseReader) else collection.class_source,
        "psi_sha256": reader.shown.sha256 if reader.shown else "",
        "psi_of": OF_WHOLE if reader.shown else "",
        "guide_sha256": apart.sha256 if apart is not None else "",
    }
    return {name: said for name, said in found.items() if said}


def _hash_first_weights(net: Any, network: Network) -> str:
    """A hash of a network before it is trained: with another one a checkpoint is another run's."""
    found = hashlib.sha256(json.dumps(network.file_fields, sort_keys=True).encode())
    for value in net.state_dict().values():
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _hash_recording(recording: Any) -> bytes:
    """A hash of a recording, its mask and its labels; it stays in the checkpoint, which is private.

    With any other one a checkpoint would be of a run that learned from somebody else.
    """
    found = hashlib.sha256()
    for each in dataclasses.fields(recording):
        held = getattr(recording, each.name)
        is_array = isinstance(held, np.ndarray)
        said = (each.name, held.shape, str(held.dtype)) if is_array else (each.name, held)
        found.update(repr(said).encode())
        found.update(held.tobytes() if is_array else b"")
    return found.digest()
