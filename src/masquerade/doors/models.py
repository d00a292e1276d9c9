"""A trained model as a file, with its receipt beside it, and read again."""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade import __version__
from masquerade._optional import require
from masquerade.doors import publish
from masquerade.doors.billing import Bill
from masquerade.errors import BadInput
from masquerade.events import DpEvent, NoGuaranteeDpEvent, event_to_json
from masquerade.files import atomic
from masquerade.guarantee import Guarantee
from masquerade.mechanism import Shapes
from masquerade.nets import mvit
from masquerade.noise import Noise
from masquerade.receipt import Receipt


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a receipt says of a model, but for its bytes.

    Args:
        method: its name.
        fields: its public fields.
        shapes: public numbers that, with the fields, decide the guarantee.
        guarantee: the promise.
        event: the same for an accountant.
    """

    method: str
    fields: dict[str, Any]
    shapes: Shapes
    guarantee: Guarantee
    event: DpEvent


def new_target(target: Path | str, noise: Noise) -> Path:
    """The model's final name, if it can be one."""
    target = publish.final_name(Path(target), noise)
    if target.suffix != ".safetensors":
        raise ValueError(f"Expected the output to end in .safetensors, got {target}.")
    if not target.parent.is_dir():
        raise ValueError(f"Expected the folder {target.parent} to exist; make it first.")
    return target


def refuse_standing(target: Path) -> None:
    """Raise if a model stands there."""
    if target.exists():
        raise FileExistsError(f"{target} stands already; training again would spend again.")


def encoded(net: Any, said: dict[str, Any]) -> bytes:
    """A network's weights as safetensors, with what is said of it."""
    files = require("safetensors.torch", extra="train")
    tensors = {key: value.detach().cpu().contiguous() for key, value in net.state_dict().items()}
    # one key: with several their order would differ from file to file
    data: bytes = files.save(tensors, metadata={"masquerade": json.dumps(said)})
    return data


def write(target: Path, data: bytes, said: Statement, noise: Noise, *, bill: Bill) -> Receipt:
    """Both files complete on disk, then settled, then the receipt gets its name, then the model.

    A run is settled first, so that it cannot have a second model; a crash right after costs a new
    run.
    """
    receipt = receipt_of(said, data, noise, charged=bill.charged)
    text = receipt.to_json().encode()
    with (
        atomic.staged(target) as output,
        atomic.staged(publish.receipt_path(target)) as beside,
    ):
        output.stream.write(data)
        output.seal()
        beside.stream.write(text)
        beside.seal()
        bill.settle(receipt)
        beside.name()
        output.name()
    bill.forget()
    return receipt


def receipt_of(said: Statement, data: bytes, noise: Noise, *, charged: dict[str, Any]) -> Receipt:
    """What was done and what is promised, tied to the model's bytes."""
    is_rehearsal = noise.is_rehearsal
    event = NoGuaranteeDpEvent("rehearsal") if is_rehearsal else said.event
    return Receipt(
        mechanism=said.method,
        fields=said.fields,
        shapes=said.shapes,
        guarantee=said.guarantee.as_rehearsal() if is_rehearsal else said.guarantee,
        event=event_to_json(event),
        output_sha256=hashlib.sha256(data).hexdigest(),
        random_source=noise.source,
        is_rehearsal=is_rehearsal,
        code_version=__version__,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        **charged,
    )


def said_of(path: Path) -> dict[str, Any]:
    """What a model's file says of it; what `encoded` was given."""
    safetensors = require("safetensors", extra="train")
    try:
        with safetensors.safe_open(path, framework="pt") as held:
            return dict(json.loads((held.metadata() or {})["masquerade"]))
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError, OSError) as error:
        raise BadInput(f"Expected a model of ours in {path}, got {error}.") from error


def load_model(path: Path) -> tuple[Any, tuple[str, ...]]:
    """A model that `masquerade train` wrote, and its classes."""
    safetensors = require("safetensors", extra="train")
    said = said_of(path)
    try:
        activities = tuple(said["activities"])
        if said["network"] == "lstm":
            return _lstm(path, said), activities
        net = mvit.make(said["network"], classes=len(activities))
    except (
        safetensors.SafetensorError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
        OSError,
    ) as error:
        raise BadInput(f"Expected a model of ours in {path}, got {error}.") from error
    mvit.load_weights(net, path, keep_head=True)
    return net.eval(), activities


def _lstm(path: Path, said: dict[str, Any]) -> Any:
    """A network of signals; its name and window stand on it."""
    lstm = require("masquerade.nets.lstm", extra="train")
    files = require("safetensors.torch", extra="train")
    net = lstm.LSTM(said["channels"], len(said["activities"]), hidden=said["hidden"])
    net.load_state_dict(files.load_file(path))
    net.name, net.window, net.rate_hz = "lstm", int(said["window"]), float(said["rate_hz"])
    return net.eval()
