"""A receipt is checked with the core alone, whatever made the release."""

from __future__ import annotations

from pathlib import Path

from conftest import python

CHECK = """
import hashlib, sys
from fractions import Fraction
from pathlib import Path

HEAVY = {heavy!r}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ImportError(f"{{name}} is not installed")

sys.meta_path.insert(0, Missing())

import numpy as np
from masquerade import Noise, catalog, check_receipt
from masquerade.receipt import receipt_path, write_receipt
from masquerade.training.ensemble import Ensemble
from masquerade.training.method import with_public
from masquerade.io.video import write

def publish(path, promise, shapes):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    made = write_receipt(
        promise, promise.plan(shapes), shapes=shapes, noise=Noise(), output_sha256=digest
    )
    receipt_path(path).write_text(made.to_json())
    assert check_receipt(path) == made, promise.name
    print(promise.name)

film, table, model = (Path({folder!r}) / name for name in ("o.mkv", "o.npy", "o.safetensors"))
with film.open("wb") as stream:
    write.write_video(stream, np.zeros((4, 32, 48, 3), np.uint8), suffix=".mkv", rate=Fraction(4))
np.save(table, np.zeros((4, 3)))
model.write_bytes(b"weights")
for name in catalog.list_entries("mechanisms"):
    mechanism, is_film = catalog.make_example("mechanisms", name), name != "gaussian_noise"
    shape = (4, 32, 48, 3) if is_film else (4, 3)
    publish(film if is_film else table, mechanism, (shape,))
for name in catalog.list_entries("training"):
    method = catalog.make_example("training", name)
    shapes = ((method.num_teachers, 1),) if isinstance(method, Ensemble) else ((500,),)
    marks = {{mark: "0" * 64 for mark in getattr(method, "MARKS", ())}}
    publish(model, with_public(method, marks), shapes)
assert not HEAVY & {{name.partition(".")[0] for name in sys.modules}}
"""
HEAVY = {"cv2", "torch", "torchvision", "numba", "skimage", "sklearn", "onnxruntime"}


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy!r}:
            raise ImportError(f"{{name}} is not installed")
sys.meta_path.insert(0, Missing())
import numpy as np
from masquerade import Noise, catalog
from masquerade.errors import MissingExtra
film = np.zeros((2, 32, 32, 3), np.uint8)
for name in ("avatar", "face_blur", "spact"):
    try:
        catalog.make_example("mechanisms", name).apply(film, Noise())
    except MissingExtra as error:
        print(error)
"""


def test_what_is_missing_is_named_once_when_it_is_needed() -> None:
    said = python(WITHOUT.format(heavy=HEAVY | {"ai_edge_litert", "dlib"})).splitlines()
    assert [line.count("pip install") for line in said] == [1, 1, 1]
    for line, extra in zip(said, ("avatar", "vision", "train"), strict=True):
        assert line.endswith(f"'masquerade[{extra}]'"), line


def test_every_receipt_is_checked_without_what_made_the_release(tmp_path: Path) -> None:
    said = python(CHECK.format(heavy=HEAVY | {"ai_edge_litert", "dlib"}, folder=str(tmp_path)))
    assert len(said.split()) >= 25 and {"avatar", "face_blur", "spact", "mask_dp"} < set(
        said.split()
    )
