"""Train a model privately and publish it: the Python side of `masquerade train`.

What a run costs is known from the number of units, before it learns anything. The order is read,
reserve, train, write, receipt, settle: the spend is on disk before the first step, and the receipt
stands before the model does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from masquerade import catalog
from masquerade._optional import require
from masquerade.collection import Collection
from masquerade.doors import models
from masquerade.doors.billing import Bill, cost_of
from masquerade.doors.lessons import Lessons, Memory, classes_of, lessons
from masquerade.doors.splits import public_part_of
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.receipt import Release
from masquerade.recordings import Signal
from masquerade.train import loop
from masquerade.train.coupling import refuse_coupling
from masquerade.train.loop import Precision
from masquerade.train.method import Method
from masquerade.train.plan import Plan

torch = require("torch", extra="train")
Progress = Callable[[str, int, int], None]
MASKS = "mask_sha256"  # in a receipt's fields: the fingerprint of the public masks


class Learner(Protocol):
    """What is trained: how it begins, what it learns from, what its file says.

    `Network` learns from videos, `doors.worn.Worn` from worn sensors.
    """

    @property
    def known(self) -> Sequence[Signal]:
        """Public recordings that it uses without noise."""

    @property
    def kind(self) -> dict[str, Any]:
        """What its file says of it, whatever it learns from."""

    def check(self, method: Method, precision: Precision) -> None:
        """Refuse what it cannot be trained by."""

    def make(self, classes: int, *, seed: int) -> Any:
        """The network before it is trained; what is random in it comes from a public seed."""

    def lessons(
        self,
        collection: Collection[Any],
        method: Method,
        net: Any,
        *,
        memory: Memory,
        progress: Callable[[int, int], None],
        see: Callable[[Any], None],
    ) -> contextlib.AbstractContextManager[tuple[Any, Lessons]]:
        """Read every recording once; give what is trained of the network, and its rows."""

    def said(self, net: Any, classes: tuple[str, ...]) -> dict[str, Any]:
        """What a model's file must say so that it can be read again."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Which network is trained on videos, and from which weights.

    Args:
        network: mvit_v1_b, mvit_v2_s or mvit_small.
        weights: a file of public weights to begin with; for mvit_small ours if None.
        from_scratch: begin with random weights instead.
        keep_head: begin with the head of the public weights too, where their classes are the same;
            otherwise with zeros.
    """

    network: str = "mvit_small"
    weights: Path | None = None
    from_scratch: bool = False
    keep_head: bool = False

    def __post_init__(self) -> None:
        if self.from_scratch and self.weights is not None:
            raise ValueError("Expected weights or from_scratch, got both.")

    @property
    def known(self) -> Sequence[Signal]:
        """None: weights are public, not recordings."""
        return ()

    @property
    def kind(self) -> dict[str, Any]:
        """What its file says of it, whatever it learns from."""
        return {"network": self.network}

    def check(self, method: Method, precision: Precision) -> None:
        """It is trained by every method."""

    def make(self, classes: int, *, seed: int) -> Any:
        """The network before it is trained; what is random in it comes from a public seed."""
        net = self._begun(classes, seed)
        if not self.keep_head:
            for parameter in net.head.parameters():
                torch.nn.init.zeros_(parameter)
        return net

    def _begun(self, classes: int, seed: int) -> Any:
        torch.manual_seed(seed)
        if self.from_scratch:
            return mvit.make(self.network, classes=classes)
        if self.weights is None and self.network == "mvit_small":
            return mvit.pretrained(self.network, classes=classes)
        if self.weights is None:
            raise ValueError(
                f"Expected --weights FILE with public weights of {self.network} (Kinetics-400), "
                "or --from-scratch, got neither."
            )
        net = mvit.make(self.network, classes=classes)
        mvit.load_weights(net, self.weights)
        return net

    @contextlib.contextmanager
    def lessons(
        self,
        collection: Collection[Any],
        method: Method,
        net: Any,
        *,
        memory: Memory,
        progress: Callable[[int, int], None],
        see: Callable[[Any], None],
    ) -> Iterator[tuple[Any, Lessons]]:
        """Read every video once; give what is trained of the network, and its rows."""
        trunk, tail = mvit.split(net, method.part)
        seen = mvit.NORMALISATION[net.name]
        made_up = torch.rand(2, 3, seen.frames, seen.size_px, seen.size_px, device=memory.device)
        with torch.no_grad():
            refuse_coupling(tail, trunk(made_up))
        with lessons(
            collection, method, net, trunk, memory=memory, progress=progress, see=see
        ) as found:
            yield tail, found

    def said(self, net: Any, classes: tuple[str, ...]) -> dict[str, Any]:
        """What a model's file must say so that it can be read again."""
        return self.kind | {"activities": classes}


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How the work is done; nothing here changes what is promised."""

    memory: Memory = field(default_factory=Memory)
    work: loop.Work = field(default_factory=loop.Work)

    @property
    def precision(self) -> Precision:
        """The lower one of both."""
        return self.work.precision if self.memory.precision == "float32" else self.memory.precision


def make_method(name: str, /, **fields: Any) -> Method:
    """The training method of that name with these fields.

    Example:
        >>> make_method("dp_sgd", epsilon=1, unit="video").met.value
        'zero_out'
    """
    method: Method = type(catalog.example("train", name))(**fields)
    return method


def train(
    collection: Collection[Any],
    method: Method,
    network: Learner,
    *,
    noise: Noise | None = None,
    ways: Ways | None = None,
    progress: Progress = lambda what, done, total: None,
    see: Callable[[Any], None] = lambda recording: None,
    see_public: Callable[[Any], None] = lambda recording: None,
    begin: Callable[[Plan, Lessons], None] = lambda plan, found: None,
) -> tuple[Any, Plan, Lessons]:
    """A trained network, the plan it was trained by, and what it learned from (private).

    Args:
        collection: the private training recordings.
        method: how.
        network: what is trained.
        noise: where noise and batches come from; by default the operating system.
        ways: how the work is done.
        progress: called with what is done, how far, and of how much.
        see: called with each recording as it is read.
        see_public: called with each public one that the network uses.
        begin: called when all is read, before the first step; what it raises stops the run.
    """
    ways, noise = ways or Ways(), noise or Noise()
    classes = len(classes_of(collection))
    if method.class_weights and len(method.class_weights) != classes:
        raise ValueError(
            f"Expected class_weights for {classes} classes, got {len(method.class_weights)}."
        )
    network.check(method, ways.precision)
    for recording in network.known:
        see_public(recording)
    net = network.make(classes, seed=method.public_seed)
    name = f"{ways.work.name} {_begun(net, network.kind)}" if ways.work.checkpoint else ""
    data = hashlib.sha256()

    def seen(recording: Any) -> None:
        if ways.work.checkpoint:
            data.update(_content(recording))
        see(recording)

    net = net.to(ways.memory.device)
    with network.lessons(
        collection,
        method,
        net,
        memory=ways.memory,
        progress=lambda done, total: progress("reading", done, total),
        see=seen,
    ) as (tail, found):
        plan = method.plan(found.rows.units)
        begin(plan, found)
        loop.run(
            tail,
            found.rows,
            method,
            plan,
            noise=noise,
            work=replace(ways.work, name=f"{name} {data.hexdigest()}"),
            progress=lambda done, total: progress("training", done, total),
        )
    return net, plan, found


def train_file(
    collection: Collection[Any],
    target: Path,
    method: Method,
    network: Learner,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    ways: Ways | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Release[Path]:
    """Train, and write the model as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first step. A
    run that was stopped and is called again is charged once.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    noise, ways = noise or Noise(), ways or Ways()
    target = models.new_target(target, noise)
    with atomic.alone(target):
        models.refuse_standing(target)
        bill = Bill(ledger, target, noise)
        try:
            net, plan, found = train(
                collection,
                method,
                network,
                noise=noise,
                ways=replace(ways, work=replace(ways.work, name=bill.run_id)),
                progress=progress,
                see=bill.see,
                see_public=bill.see_public,
                begin=lambda plan, found: bill.reserve(
                    cost_of(method, [plan], _fields(method, found.mask_sha256)), found.units
                ),
            )
        except Exception:
            bill.abandon()
            raise
        except KeyboardInterrupt as stop:
            bill.abandon()
            raise type(stop)(f"Interrupted; no model was written.{bill.owed}") from stop
        more = {"part": method.part, "learned": public_part_of(collection)}
        receipt = models.write(
            target,
            models.encoded(net, network.said(net, classes_of(collection)) | more),
            statement(method, plan, mask_sha256=found.mask_sha256),
            noise,
            bill=bill,
        )
    return Release(value=target, receipt=receipt)


def statement(method: Method, plan: Plan, *, mask_sha256: str | None = None) -> models.Statement:
    """What the receipt of a run says."""
    return models.Statement(
        method=method.name,
        fields=_fields(method, mask_sha256),
        shapes=((plan.sampler.units,),),
        guarantee=method.guarantee(plan),
        event=method.event(plan),
    )


def _begun(net: Any, kind: dict[str, Any]) -> str:
    """A hash of a network before it is trained: with another one a checkpoint is another run's."""
    found = hashlib.sha256(json.dumps(kind, sort_keys=True).encode())
    for value in net.state_dict().values():
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _content(recording: Any) -> bytes:
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


def _fields(method: Method, mask_sha256: str | None) -> dict[str, Any]:
    """A method's fields as its receipt has them, with the public masks that it speaks of."""
    return method.fields() | ({} if mask_sha256 is None else {MASKS: mask_sha256})
