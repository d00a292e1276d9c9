"""Run a small network that comes as a TFLite file: one RGB picture in, tensors out."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from masquerade._optional import Later
from masquerade.errors import BadInput

litert = Later("ai_edge_litert.interpreter", extra="masks")


class LiteNetwork:
    """A network that takes one picture, (1, H, W, 3) float32, and gives some tensors.

    Several threads may ask it; it answers one after the other.

    Args:
        path: a .tflite file.
        outputs: the shape of each tensor that it must give, in its order.

    Raises:
        BadInput: if the file is no such network.
    """

    def __init__(self, path: Path, *, outputs: tuple[tuple[int, ...], ...]) -> None:
        if not path.is_file():
            raise BadInput(f"Expected a TFLite network at {path}; there is no such file.")
        try:
            with _quietly():
                self._run = litert.Interpreter(model_path=str(path), num_threads=_num_threads())
                self._run.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise BadInput(f"Expected a TFLite network in {path.name}, got: {error}.") from error
        taken, given = self._run.get_input_details(), self._run.get_output_details()
        shapes = tuple(tuple(int(side) for side in each["shape"]) for each in given)
        picture = tuple(int(side) for side in taken[0]["shape"])
        if len(picture) != 4 or picture[3] != 3 or shapes[: len(outputs)] != outputs:
            raise BadInput(
                f"Expected a network that takes a picture and gives {outputs}, got {path.name}, "
                f"which takes {picture} and gives {shapes}."
            )
        self._name, self._input = path.name, taken[0]["index"]
        self._outputs = [each["index"] for each in given[: len(outputs)]]
        self.size: tuple[int, int] = picture[1:3]
        self._is_asked = threading.Lock()

    def __call__(self, picture: np.ndarray) -> list[np.ndarray]:
        """What the network gives for a picture (H, W, 3) of its size, without the batch's axis."""
        shown = picture[None].astype(np.float32)
        with self._is_asked:
            self._run.set_tensor(self._input, shown)
            self._run.invoke()
            found = [self._run.get_tensor(index)[0] for index in self._outputs]
        if not all(np.all(np.isfinite(each)) for each in found):
            raise BadInput(f"Expected numbers from {self._name}, got NaN or infinity.")
        return found


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """TFLite says below Python, on the error stream, how it runs; what goes wrong is raised."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _num_threads() -> int:
    """As many as there are cores, or as OMP_NUM_THREADS allows a worker among others."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = os.cpu_count() or 1
    return min(cores, int(allowed)) if allowed.isdigit() and int(allowed) else cores
