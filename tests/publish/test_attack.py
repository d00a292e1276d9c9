"""The command `attack`: Stage written to files, released, attacked; and what it refuses."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from masquerade import catalog
from masquerade.attacks.attack import Attack
from masquerade.cli import flags, parsing
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.publish.attack import make_attack
from masquerade.publish.attacked import (
    AttackerKnowledge,
    make_file_case,
    make_mechanism_case,
    make_memory_release,
)
from masquerade.recordings import Video
from masquerade.vision import embedding_cache

WORLD = {"subjects": 12, "videos": 36, "frames": 2, "height": 32, "width": 32, "bystanders": 0.0}
FLAGS = [word for name, value in WORLD.items() for word in (f"--{name}", str(value))]
QUICK = ["--steps", "2", "--pictures", "1"]
Command = Callable[..., Any]


@pytest.fixture
def written(in_world: Path, tmp_path: Path, command: Command) -> Path:
    """The test split of a tiny world, as files."""
    out = tmp_path / "private"
    assert command("data", "write", "stage", "--split", "test", *FLAGS, "--out", out).code == 0
    return out


@pytest.fixture
def released(written: Path, command: Command) -> Path:
    target = written.with_name("published")
    done = command("release", written, target, "--mechanism", "mosaic", "--keep-names")
    assert done.code == 0, done.err
    return target


def test_a_world_is_written_released_and_attacked(
    released: Path, tmp_path: Path, command: Command
) -> None:
    before = {path: path.read_bytes() for path in released.rglob("*") if path.is_file()}
    out = tmp_path / "answer.json"
    words = ["attack", "attribute_inference", released, "--data", "stage", *FLAGS, *QUICK]
    done = command(*words, "--out", out)
    assert done.code == 0, done.err
    first, *lines = done.out.splitlines()
    assert first.startswith("PRIVATE")
    assert [line for line in lines if "cMAP" in line and "n = 2 people; raw" in line]
    held = json.loads(out.read_text())
    assert held["private"] and len(held["attackers"]) == 2
    assert all(each["verdict"] for each in held["attackers"])
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert before == {path: path.read_bytes() for path in released.rglob("*") if path.is_file()}
    again = command(*words, "--json")
    assert again.json["private"] and again.json["attackers"] == held["attackers"]


def test_an_attack_on_what_a_ledger_was_charged_for_changes_neither_ledger_nor_receipts(
    written: Path, tmp_path: Path, command: Command
) -> None:
    ledger, target = tmp_path / "budget.db", tmp_path / "published"
    limits = ("--epsilon", 40, "--delta", 1e-3, "--unit", "frame", "--ledger", ledger)
    assert command("ledger", "open", "ward", *limits).code == 0
    films = sorted((written / "videos").iterdir())
    assert command("ledger", "add", "ward", *films, "--ledger", ledger).code == 0
    words = ["--mechanism", "pooled_gaussian", "--unit", "frame", "--epsilon", 4, "--delta", 1e-5]
    done = command("release", written, target, *words, "--keep-names", "--ledger", ledger, "--yes")
    assert done.code == 0, done.err
    before = {path: path.read_bytes() for path in (ledger, *target.rglob("*")) if path.is_file()}
    assert len(before) == 1 + 3 * len(films), "each with its receipt and signature"
    done = command("attack", "attribute_inference", target, "--data", "stage", *FLAGS, *QUICK)
    assert done.code == 0, done.err
    after = {path: path.read_bytes() for path in (ledger, *target.rglob("*")) if path.is_file()}
    assert after == before


def test_an_attack_without_a_name_lists_them(command: Command) -> None:
    done = command("attack")
    assert done.code == 0
    for name in catalog.list_entries("attacks"):
        assert [line for line in done.out.splitlines() if line.startswith(name)]
    assert "attribute_inference" in command("attack", "--json").json["attacks"]


def test_what_attacks_keep_is_forgotten(private_features: Path, command: Command) -> None:
    embedding_cache.read_or_embed(
        np.zeros((2, 4), np.uint8) + np.arange(2, dtype=np.uint8)[:, None],
        fingerprint="none",
        make=lambda some: some.astype(float),
    )
    assert command("attack", "--forget", "--json").json == {"forgotten": 2}
    assert command("attack", "--forget").out.startswith("Removed what was kept of 0 pictures")


def test_a_mechanism_is_attacked_without_files(in_world: Path, command: Command) -> None:
    words = [
        "attack",
        "attribute_inference",
        "--data",
        "stage",
        *FLAGS,
        *QUICK,
        "--attacker",
        "raw",
    ]
    done = command(*words, "--mechanism", "mosaic", "--json")
    assert done.code == 0, done.err
    assert len(done.json["attackers"]) == 1
    both = command(*words, "--mechanism", "mosaic", "a.mp4")
    assert both.code == 2 and "not both" in both.err
    assert command(*words).code == 2
    assert "--data" in command("attack", "attribute_inference", "a.mp4").err


def test_files_of_no_recording_are_named_and_nothing_is_printed(
    released: Path, tmp_path: Path, command: Command
) -> None:
    words = ["attack", "attribute_inference", "--data", "stage", *FLAGS, *QUICK]
    one = next(released.rglob("*.mp4"))
    strange, opaque = tmp_path / "nobody.mp4", tmp_path / "0123456789abcdef.mp4"
    for path in (strange, opaque):
        path.write_bytes(one.read_bytes())
        done = command(*words, path)
        assert done.code == 4 and path.name in done.err and not done.out
        assert "--keep-names" in done.err
    torn = tmp_path / one.name
    torn.write_bytes(one.read_bytes()[:100])
    done = command(*words, torn, "--attacker", "raw")
    assert done.code == 4 and torn.name in done.err and not done.out
    missing = command(*words, tmp_path / "none.mp4")
    assert missing.code == 4 and "none.mp4" in missing.err


def test_a_changed_file_or_a_lost_receipt_is_refused(released: Path, command: Command) -> None:
    words = ["attack", "attribute_inference", released, "--data", "stage", *FLAGS, *QUICK]
    first, second = sorted(released.rglob("*.mp4"))[:2]
    receipt = first.with_name(first.name + ".receipt.json")
    kept = receipt.read_bytes()
    receipt.unlink()
    done = command(*words)
    assert done.code == 4 and first.name in done.err and "receipt" in done.err
    receipt.write_bytes(kept)
    second.write_bytes(first.read_bytes())
    done = command(*words)
    assert done.code == 4 and second.name in done.err and not done.out


def test_an_answer_does_not_stand_among_what_is_published(released: Path, command: Command) -> None:
    words = ["attack", "attribute_inference", released, "--data", "stage", *FLAGS, *QUICK]
    done = command(*words, "--out", released / "answer.json")
    assert done.code == 2 and "private place" in done.err


@pytest.mark.parametrize("whose", ["other people", "same people", "same places", "nobody"])
def test_an_attacker_holds_whom_the_attack_says_and_nothing_published(
    released: Path, whose: Any
) -> None:
    stage = Stage(**WORLD)
    paths = sorted(released.rglob("*.mp4"))[:1]
    try:
        case = make_file_case(paths, stage, AttackerKnowledge(whose=whose))
    except BadInput as error:
        assert whose == "same places" and "same places" in str(error)
        return
    [target] = case.targets
    assert isinstance(target, Video)
    held = [each for each in case.known if isinstance(each, Video)]
    people = {each.subject for each in held}
    assert {
        "other people": target.subject not in people and len(people) == 11,
        "same people": people == {target.subject} and len(held) >= 1,
        "same places": {each.place for each in held} == {target.place},
        "nobody": not held,
    }[whose]


@pytest.mark.parametrize("whose", ["same people", "same places"])
def test_who_holds_recordings_of_the_same_is_left_every_other_one(
    in_world: Path, whose: Any
) -> None:
    stage = Stage(**WORLD, places=2, split="test")
    case = make_mechanism_case(
        catalog.make_example("mechanisms", "mosaic"), stage, AttackerKnowledge(whose=whose)
    )
    label = "subject" if whose == "same people" else "place"
    asked, held = ({getattr(one, label) for one in side} for side in (case.raw, case.known))
    assert asked <= held and 1 <= len(case.targets) <= len(stage) // 2


def test_one_recording_of_each_leaves_nothing_to_release_and_that_is_said() -> None:
    worn = Stage(kind="signals", wearers=6, split="all")
    mechanism = catalog.make_example("mechanisms", "gaussian_noise")
    with pytest.raises(BadInput, match="two recordings of one person at least"):
        make_mechanism_case(mechanism, worn, AttackerKnowledge(whose="same people"))


def test_a_recording_is_released_in_memory_the_same_each_time_it_is_read(in_world: Path) -> None:
    stage = Stage(**WORLD, split="test")
    mechanism = type(catalog.make_example("mechanisms", "pooled_gaussian"))(
        epsilon=8, delta=1e-4, unit="frame"
    )
    case = make_mechanism_case(mechanism, stage, AttackerKnowledge())
    first, again = case.targets[0], case.targets[0]
    other = make_memory_release(mechanism, seed=1)(stage[0])
    assert isinstance(first, Video) and isinstance(again, Video) and isinstance(other, Video)
    assert (first.frames == again.frames).all() and first.subject == stage[0].subject
    assert (first.frames != other.frames).any()


def test_a_flag_that_the_data_set_has_gets_a_word_in_front(command: Command) -> None:
    words = ["attack", "seed_subtraction", "--data", "stage", "--mechanism", "video_dprp", "--help"]
    said = command(*words).out
    for flag in ("--split", "--mechanism-split", "--seed", "--attack-seed"):
        assert f"{flag} " in said
    assert "that the attacker knows" in said, "its description comes along"


@pytest.mark.parametrize("name", catalog.list_entries("attacks"))
def test_every_attack_can_be_asked_for_help_beside_stage(name: str, command: Command) -> None:
    done = command("attack", name, "--data", "stage", "--help")
    assert done.code == 0 and "--published" not in done.out


def test_what_was_renamed_for_the_command_line_arrives_under_its_own_name() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Plain:
        """Two.

        Args:
            seed: its own.
            other: another.
        """

        seed: int = 3
        other: tuple[int, ...] = ()

    renamed = flags.rename_shared(flags.list_flags(Plain).values(), {"seed"}, "attack")
    assert [each.name for each in renamed] == ["attack_seed", "other"]
    made = parsing._make_entry(Plain, renamed, {"attack_seed": 5, "other": (1,)})
    assert made == Plain(seed=5, other=(1,))


def test_membership_wants_one_model_of_ours(
    released: Path, tmp_path: Path, command: Command
) -> None:
    words = ["attack", "membership", "--data", "stage", *FLAGS]
    for published in (released, tmp_path / "none.safetensors"):
        done = command(*words, published)
        assert done.code == 4 and published.name in done.err and not done.out
    assert command(*words, "--mechanism", "mosaic").code == 2


@pytest.mark.slow
def test_a_model_is_trained_and_attacked(in_world: Path, tmp_path: Path, command: Command) -> None:
    model = tmp_path / "m.safetensors"
    flags = ["--data", "stage", *FLAGS, "--frames", "16", "--videos", "48"]
    train = ["--method", "dp_sgd", "--epsilon", "inf", "--unit", "video", "--from-scratch"]
    done = command("train", model, *train, "--batch", "4", "--epochs", "1", *flags)
    assert done.code == 0, done.err
    words = ["attack", "membership", model, "--shadows", "6", "--few", "8", "--jobs", "1"]
    done = command(*words, *flags, "--json")
    assert done.code == 0, done.err
    measures = {figure["measure"] for figure in done.json["attackers"][0]["published"]}
    assert "AUC" in measures and done.json["private"]
    others = command(*words, *flags, "--videos", "60")
    assert others.code == 4 and "that the model learned from" in others.err and not others.out


def test_an_attack_is_made_by_its_name() -> None:
    attack = make_attack("attribute_inference", attacker="raw")
    assert isinstance(attack, Attack) and attack == type(attack)(attacker="raw")
    with pytest.raises(ValueError, match="Unknown attack"):
        make_attack("nonsense")
