"""The state of a run on disk: its weights, no random state, and what makes it this very run."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from masquerade._torch import torch
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.train.method import Method
from masquerade.train.plan import Plan

_DIGEST = 32  # bytes before a checkpoint's content: its SHA-256


def save(
    path: Path, weights: Mapping[str, Any], best: Any, run_id: dict[str, Any], done: int
) -> None:
    """All that a run needs to go on; batches and noise are drawn anew, so no state of theirs.

    The steps after it may be run twice, with other noise: the file is as private as the recordings.
    """
    state = {
        "run": json.dumps(run_id),
        "done": done,
        "weights": {name: value.detach().cpu() for name, value in weights.items()},
        "optimiser": best.state_dict(),
    }
    stream = io.BytesIO()
    torch.save(state, stream)
    data = stream.getvalue()
    atomic.write_whole(path, hashlib.sha256(data).digest() + data, is_private=True)


def resume(path: Path | None, weights: Mapping[str, Any], best: Any, run_id: dict[str, Any]) -> int:
    """Steps that were done; weights and optimiser are set to what they were then.

    Raises:
        BadInput: if the file is damaged, or of another run.
    """
    if path is None or not path.is_file():
        return 0
    held = path.read_bytes()
    if hashlib.sha256(held[_DIGEST:]).digest() != held[:_DIGEST]:
        raise BadInput(f"Expected a whole checkpoint in {path}, got a damaged one; delete it.")
    state = torch.load(io.BytesIO(held[_DIGEST:]), weights_only=True)
    is_same = json.loads(state["run"]) == run_id
    if not is_same:
        raise BadInput(
            f"Expected the checkpoint of this very run in {path}, got another run's; delete it or "
            "choose another output."
        )
    with torch.no_grad():
        for name, value in weights.items():
            value.copy_(state["weights"][name])
    best.load_state_dict(state["optimiser"])
    return int(state["done"])


def identity(plan: Plan, method: Method, tail: Any, trunk: Any | None) -> dict[str, Any]:
    """What makes a run this run: its plan, its method, and the network but for what is trained."""
    frozen, shapes = hashlib.sha256(), {}
    trained = {name for name, held in tail.named_parameters() if held.requires_grad}
    for name, held in tail.state_dict().items():
        shapes[name] = list(held.shape)
        if name not in trained:
            frozen.update(held.detach().cpu().contiguous().numpy().tobytes())
    for held in trunk.state_dict().values() if trunk is not None else ():
        frozen.update(held.detach().cpu().contiguous().numpy().tobytes())
    known = {"plan": asdict(plan), "method": method.name, "fields": method.fields()}
    known |= {"weights": shapes, "frozen": frozen.hexdigest()}
    found: dict[str, Any] = json.loads(json.dumps(known))
    return found
