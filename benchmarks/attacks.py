"""What attacks still find in what each mechanism releases of Stage, and writes it down.

Every figure is one of ``masquerade attack NAME --data stage --mechanism ...``: the command of each
question stands in the page. Mechanisms are as they come, at epsilon 8 and delta 1e-4 where they
have a guarantee. Answers are kept in ``--kept`` (a JSON file of figures on people who never lived),
so a run that was stopped goes on, and ``--write`` makes the page of what is there; rows of the page
that were not measured again stay; ``--gallery`` puts the figures below the gallery's pictures.
``--device cuda`` learns and looks on a GPU.

Usual: ``--questions body places`` on two cores, ten minutes. All: an hour.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import attacks_page
import masquerade as mq
from masquerade import _json, catalog
from masquerade.attacks.attack import Attack
from masquerade.attacks.attribute_inference import AttributeInference
from masquerade.attacks.place_retrieval import PlaceRetrieval
from masquerade.attacks.reconstruct import Reconstruct
from masquerade.attacks.reidentify import Reidentify
from masquerade.collection import Collection, Medium
from masquerade.datasets.stage import Stage
from masquerade.datasets.watch import Watch
from masquerade.errors import BadInput
from masquerade.io import devices
from masquerade.mechanism import Mechanism

ALL_WALK = (1.0, *[0.0] * 11)
ALONE = Stage(split="all", shares_subjects=True, bystanders=0.0)
PEOPLE = replace(ALONE, subjects=24, videos=144)
WALKERS = replace(
    ALONE, subjects=14, videos=56, class_share=ALL_WALK, height=160, width=160, frames=32
)
NEAR = replace(ALONE, preset="faces", subjects=14, videos=112)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One attack on one world.

    Args:
        attack: with its fields.
        data: the world.
        holds: recordings that the attacker holds, at most.
    """

    attack: Attack
    data: Collection[Any]
    holds: int | None = None


LOOKS = Stage(subjects=210, videos=630, frames=4, rate_hz=2.5)
SMALL = Stage(videos=126, height=64, width=64, frames=20)
QUESTIONS = {
    "looks": Question(attack=AttributeInference(), data=LOOKS),
    "body": Question(attack=Reidentify(), data=PEOPLE),
    "body, adaptive": Question(attack=Reidentify(gallery="released"), data=PEOPLE),
    "body, told where": Question(attack=Reidentify(joints="truth"), data=PEOPLE),
    "body, told where, adaptive": Question(
        attack=Reidentify(joints="truth", gallery="released"), data=PEOPLE
    ),
    "face": Question(attack=Reidentify(by="face"), data=NEAR),
    "face, adaptive": Question(attack=Reidentify(by="face", gallery="released"), data=NEAR),
    "gait": Question(attack=Reidentify(by="gait"), data=WALKERS),
    "gait, adaptive": Question(attack=Reidentify(by="gait", gallery="released"), data=WALKERS),
    "silhouette": Question(attack=Reidentify(by="silhouette"), data=WALKERS),
    "silhouette, adaptive": Question(
        attack=Reidentify(by="silhouette", gallery="released"), data=WALKERS
    ),
    "worn": Question(attack=Reidentify(by="worn"), data=Watch()),
    "worn, adaptive": Question(attack=Reidentify(by="worn", gallery="released"), data=Watch()),
    "places": Question(
        attack=PlaceRetrieval(attacker="both", gallery=(48,)), data=Stage(split="all", videos=216)
    ),
    "reconstruct": Question(attack=Reconstruct(lessons=24), data=SMALL, holds=24),
}
RANGE = {"unit": "value", "low": -10.0, "high": 10.0}
SETTINGS: dict[str, tuple[str, dict[str, object]]] = {
    **{
        name: (name, {})
        for name in (
            *("face_blur", "selective_privacy", "blur", "mosaic", "low_resolution"),
            *("random_mask", "appearance_free", "spact", "alf", "learned_filter", "ppedcrf"),
        )
    },
    "avatar": ("avatar", {}),
    "avatar, public gait": ("avatar", {"gait": "public"}),
    "cosine_gaussian, 16 pixels": ("cosine_gaussian", {"pixels": 16}),
    "cosine_gaussian, 256 pixels": ("cosine_gaussian", {"pixels": 256}),
    "cosine_gaussian, a frame": ("cosine_gaussian", {"unit": "frame", "pixels": None}),
    "pooled_gaussian, 16 pixels": ("pooled_gaussian", {"pixels": 16}),
    "pooled_gaussian, 256 pixels": ("pooled_gaussian", {"pixels": 256}),
    "public_mask_gaussian, 16 pixels": ("public_mask_gaussian", {"pixels": 16}),
    "gaussian_noise, 16 pixels": (
        "gaussian_noise",
        {"unit": "pixels", "pixels": 16, "low": None, "high": None},
    ),
    "video_dprp, 16 pixels": ("video_dprp", {"pixels": 16}),
    "gaussian_noise, a value of a signal": ("gaussian_noise", RANGE),
    "gaussian_noise, a value of a signal, epsilon 64": (
        "gaussian_noise",
        {**RANGE, "epsilon": 64.0},
    ),
}


def fits(question: str, setting: str) -> bool:
    """Whether both are about films, or both about signals."""
    return (QUESTIONS[question].data.kind == Medium.SIGNALS) == ("signal" in setting)


def released(setting: str) -> Mechanism:
    """The mechanism of that row."""
    name, fields = SETTINGS[setting]
    example: Mechanism = catalog.make_example("mechanisms", name)
    return replace(example, **fields)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Answers by question and setting, in one file."""

    path: Path

    def read(self) -> dict[str, dict[str, object]]:
        """All of them."""
        return json.loads(self.path.read_text()) if self.path.is_file() else {}

    def add(self, question: str, setting: str, answer: object) -> None:
        """One more; only one process writes."""
        held = self.read()
        held.setdefault(question, {})[setting] = answer
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")


def asked(question: str, setting: str, where: str) -> tuple[object, float]:
    """What the attackers find, or why that cannot be said; and seconds of processor time."""
    begun, plan = time.process_time(), QUESTIONS[question]
    try:
        with devices.use_device(where):
            found = mq.attack_mechanism(plan.attack, released(setting), plan.data, holds=plan.holds)
    except (BadInput, ModuleNotFoundError, ImportError) as error:
        return f"{type(error).__name__}: {error}", time.process_time() - begun
    said = [_json.encode_noun(each) | {"verdict": each.verdict} for each in found]
    return said, time.process_time() - begun


def answers(
    cells: Sequence[tuple[str, str]], *, jobs: int, where: str
) -> Iterator[tuple[str, str, object, float]]:
    """Each cell as it is done; one of every question first, which keeps what the others share."""
    if jobs == 1:
        for question, setting in cells:
            yield question, setting, *asked(question, setting, where)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        firsts = {question: (question, setting) for question, setting in reversed(cells)}
        for part in (list(firsts.values()), [c for c in cells if c not in firsts.values()]):
            running = {pool.submit(asked, *cell, where): cell for cell in part}
            for done in as_completed(running):
                yield *running[done], *done.result()


def main() -> None:
    """Ask what is missing, and write the page."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--questions", nargs="*", default=["body", "places"])
    flags.add_argument("--settings", nargs="*", default=list(SETTINGS))
    flags.add_argument("--kept", type=Path, default=Path("out/attacks.json"))
    flags.add_argument("--write", type=Path)
    flags.add_argument("--gallery", type=Path, help="with --write: docs/gallery.md")
    flags.add_argument("--device", default="cpu")
    flags.add_argument("--jobs", type=int, default=1)
    given = flags.parse_args()
    wanted = QUESTIONS if given.questions == ["all"] else given.questions
    kept = Kept(path=given.kept)
    held = kept.read()
    every = [(q, s) for q in wanted for s in given.settings if fits(q, s)]
    cells = [(q, s) for q, s in every if s not in held.get(q, {})]
    for question, setting, answer, spent in answers(cells, jobs=given.jobs, where=given.device):
        if isinstance(answer, str):
            print(f"{question} | {setting} | {answer}", flush=True)
            continue
        kept.add(question, setting, answer)
        for line in attacks_page.lines(answer):
            print(f"{question} | {setting} | {line} | {spent:.0f} s", flush=True)
    if given.write is not None:
        before = given.write.read_text() if given.write.is_file() else ""
        page = attacks_page.markdown(kept.read(), list(SETTINGS), before=before)
        given.write.write_text(page)
        if given.gallery is not None:
            given.gallery.write_text(attacks_page.pictured(given.gallery.read_text(), page))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
