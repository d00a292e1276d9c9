"""What the maps of a film were like, told to its owner alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from masquerade.compute.asides import aside
from masquerade.files.atomic import write_whole
from masquerade.release.place_mask import MaskFacts

CONSTANT = "The mask is constant"


class MaskNotes:
    """Gathers facts, frame by frame; each is kept only where they are to be written.

    Args:
        sigma: of the noise where it is strongest.
        export: the private file that they are written to.
    """

    def __init__(self, sigma: float, export: str | None) -> None:
        self._sigma, self._export = sigma, export
        self._each = list[MaskFacts]()
        self._sums, self._count, self._constant = np.zeros(3), 0, 0

    def add(self, facts: MaskFacts) -> None:
        """Those of the next frame."""
        self._sums += dataclasses.astuple(facts)
        self._count += 1
        self._constant += facts.is_constant
        if self._export is not None:
            self._each.append(facts)

    def finish(self) -> None:
        """Say what they were like, and write them to the private file if there is one."""
        if self._count == 0:
            return
        aside(self.said())
        if self._export is not None:
            check_room(Path(self._export))
            write_whole(Path(self._export), self._as_json(), is_private=True)

    def said(self) -> str:
        """In a sentence or two; that a mask is constant comes first."""
        coverage, spread, entropy = self._sums / self._count
        figures = f"coverage {coverage:.3f}, spread {spread:.3f}, entropy {entropy:.3f} bits"
        if self._constant == self._count:
            return (
                f"{CONSTANT}: it selects nothing, and this is noise of one strength on all of the "
                f"background. Its {figures}."
            )
        if self._constant:
            return f"{CONSTANT} in {self._constant} of {self._count} frames; its {figures}."
        return f"The mask's {figures}."

    def _as_json(self) -> bytes:
        content = {
            "PRIVATE": "Computed from a private video. Do not publish this file.",
            "said": self.said(),
            "sigma": self._sigma,
            "frames": [
                {key: round(value, 5) for key, value in dataclasses.asdict(one).items()}
                | {"is_constant": one.is_constant}
                for one in self._each
            ],
        }
        return json.dumps(content).encode()


def check_room(path: Path) -> None:
    """Refuse a path at which no new file can stand."""
    if not path.parent.is_dir():
        raise ValueError(f"Expected the folder {path.parent} to exist; make it first.")
    if path.exists():
        raise FileExistsError(f"{path} stands there already; choose another name for export.")
