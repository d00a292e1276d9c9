"""Publish a model: read, reserve, learn, write, receipt, settle, name.

The spend is on disk before the first step, and the receipt stands before the model does.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from masquerade import __version__, catalog
from masquerade.collection import Collection
from masquerade.doors import outputs
from masquerade.doors.billing import Bill, bill_for, cost_of, cost_of_votes
from masquerade.doors.splits import public_part_of
from masquerade.events import NoGuaranteeDpEvent, event_to_json
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Shapes
from masquerade.nets.network import Network
from masquerade.noise import Noise
from masquerade.receipt import Receipt, Release
from masquerade.recordings import Signal
from masquerade.train import learner, model_file
from masquerade.train.ensemble import teach
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.learner import Tell, Ways
from masquerade.train.method import Method
from masquerade.train.promise import Promised


@dataclass(frozen=True, kw_only=True)
class Order:
    """A model that is wanted.

    Args:
        target: its file, .safetensors.
        noise: where noise and batches come from; by default the operating system.
        ledger: that is charged, once, also if the run is stopped and ordered again.
        tell: called with what is done, how far, and of how much.
    """

    target: Path
    noise: Noise = field(default_factory=Noise)
    ledger: Ledger | None = None
    tell: Tell = lambda what, done, total: None


def make_method(name: str, /, **fields: Any) -> Any:
    """The training method or ensemble of that name with these fields.

    Example:
        >>> make_method("dp_sgd", epsilon=1, unit="video").met.value
        'zero_out'
    """
    return type(catalog.example("train", name))(**fields)


def train_file(
    collection: Collection[Any],
    order: Order,
    method: Method,
    network: Network,
    *,
    public: Collection[Any] | Sequence[Signal] = (),
    ways: Ways | None = None,
) -> Release[Path]:
    """Train, and write the model as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first step. A
    run that was stopped and is called again is charged once.

    Args:
        collection: the private training recordings.
        order: what is wanted, and who pays.
        method: how it is trained.
        network: what is trained.
        public: recordings of other people, used without noise; for worn sensors alone.
        ways: how the work is done.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    ways, noise, target = ways or Ways(), order.noise, new_target(order)
    with atomic.alone(target):
        refuse_standing(target)
        bill = bill_for(order.ledger, target, noise)
        ways = replace(ways, work=replace(ways.work, name=bill.run_id))
        with (
            _stopped(bill),
            learner.read(
                bill.watch(collection),
                method,
                network,
                public=bill.watch(public, is_public=True),
                ways=ways,
                tell=order.tell,
            ) as reading,
        ):
            bill.reserve(cost_of(method, [reading.plan], reading.fields), reading.units)
            net = reading.run(noise)
        learned = {"part": method.part, "learned": public_part_of(collection)}
        data = model_file.encoded(net, network, collection.activities, learned)
        shapes, masks = ((reading.rows.units,),), reading.mask_sha256
        receipt = receipt_of(
            method, shapes, data, noise=noise, charged=bill.charged, mask_sha256=masks
        )
        return write(target, data, receipt, bill)


def teach_file(
    private: Collection[Any],
    public: Collection[Any],
    order: Order,
    method: Ensemble,
    *,
    device: str = "cpu",
) -> Release[Path]:
    """Teach a student, and write it as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first teacher
    learns; a run that was stopped and is called again is charged once, and its noise drawn once.

    Args:
        private: the recordings to protect.
        public: recordings of other people, whose windows are asked and learned from.
        order: what is wanted, and who pays.
        method: how it is taught.
        device: where teachers and student learn.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    noise, target = order.noise, new_target(order)
    with atomic.alone(target):
        refuse_standing(target)
        bill = bill_for(order.ledger, target, noise)
        with _stopped(bill):
            school = teach.read(
                bill.watch(private),
                bill.watch(public, is_public=True),
                method,
                device=device,
                tell=order.tell,
            )
            bill.reserve(cost_of_votes(method, school.reach), school.units)
            labels = bill.kept(school.queries)
            if labels is None:
                labels = school.labels(school.votes(), noise)
                bill.keep(labels, school.queries)
            order.tell("votes", len(labels), len(labels))
            net = school.student(labels)
        learned = {"learned": public_part_of(private)}
        data = model_file.encoded(net, school.network, private.activities, learned)
        shapes = ((method.teachers, school.reach),)
        receipt = receipt_of(method, shapes, data, noise=noise, charged=bill.charged)
        return write(target, data, receipt, bill)


def new_target(order: Order) -> Path:
    """The model's final name, if it can be one."""
    target = outputs.final_name(Path(order.target), order.noise)
    if target.suffix != ".safetensors":
        raise ValueError(f"Expected the output to end in .safetensors, got {target}.")
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    return target


def refuse_standing(target: Path) -> None:
    """Raise if a model stands there."""
    if target.exists():
        raise FileExistsError(f"{target} stands already; training again would spend again.")


@contextlib.contextmanager
def _stopped(bill: Bill) -> Iterator[None]:
    """When a run is stopped, say what is owed for it."""
    try:
        yield
    except Exception:
        bill.abandon()
        raise
    except KeyboardInterrupt as stop:
        bill.abandon()
        raise type(stop)(f"Interrupted; no model was written.{bill.owed}") from stop


def receipt_of(
    promised: Promised,
    shapes: Shapes,
    data: bytes,
    *,
    noise: Noise,
    charged: dict[str, Any],
    mask_sha256: str | None = None,
) -> Receipt:
    """What was done and what is promised, tied to the model's bytes.

    Args:
        promised: the method or ensemble.
        shapes: the public numbers that, with its fields, decide the promise.
        data: the model's file.
        noise: that was used.
        charged: what is said of a ledger.
        mask_sha256: fingerprint of the public masks, where there are some.
    """
    guarantee, event = promised.stated(shapes)
    is_rehearsal = noise.is_rehearsal
    return Receipt(
        mechanism=promised.name,
        fields=promised.fields(mask_sha256=mask_sha256),
        shapes=shapes,
        guarantee=guarantee.as_rehearsal() if is_rehearsal else guarantee,
        event=event_to_json(NoGuaranteeDpEvent("rehearsal") if is_rehearsal else event),
        output_sha256=hashlib.sha256(data).hexdigest(),
        random_source=noise.source,
        is_rehearsal=is_rehearsal,
        code_version=__version__,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        **charged,
    )


def write(target: Path, data: bytes, receipt: Receipt, bill: Bill) -> Release[Path]:
    """Both files complete on disk, then settled, then the receipt gets its name, then the model.

    A run is settled first, so that it cannot have a second model; a crash right after costs a new
    run.
    """
    text = receipt.to_json().encode()
    with (
        atomic.staged(target, atomic.writes(data)) as (_, commit),
        atomic.staged(outputs.receipt_path(target), atomic.writes(text)) as (_, first),
    ):
        bill.settle(receipt)
        first()
        commit()
    bill.forget()
    return Release(value=target, receipt=receipt)
