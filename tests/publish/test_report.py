"""The page about published files: what is private is shown when asked, and never in public."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import _json, catalog, make_mechanism
from masquerade.guarantee import GuaranteeKind
from masquerade.io.signatures import signature_path
from masquerade.io.video import write
from masquerade.noise import Noise
from masquerade.publish.learned import TRAINING_LIST_SUFFIX as PRIVATE_LIST
from masquerade.publish.receipts import check_receipt
from masquerade.receipt import Receipt, receipt_path, write_receipt
from masquerade.report import media, page, release_sections
from masquerade.report.page import PagePart, Section
from masquerade.report.release_sections import answer_plainly
from masquerade.scores import AttackResult, MeasuredRate
from masquerade.wording import explain

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
FILM = BEFORE / "public" / "film.mp4"


def answer(path: Path) -> Path:
    """What an attack writes, in small."""
    found = {
        name: MeasuredRate(
            measure="rank-1", value=value, low=value / 2, high=2 * value, count=9, of="x"
        )
        for name, value in (("published", 0.25), ("ceiling", 0.45), ("floor", 0.05))
    }
    each = {name: (figure,) for name, figure in found.items()}
    one = AttackResult(attack="reidentify", attacker="a stranger", **each)
    said = {**_json.encode_noun(one), "verdict": one.verdict, "is_telling": one.is_telling}
    path.write_text(json.dumps({"attack": "reidentify", "attackers": [said]}))
    return path


def private(tmp_path: Path) -> tuple[Any, ...]:
    return (
        *("report", FILM, "--out", tmp_path / "page.html"),
        *("--original", BEFORE / "private" / "film.mp4"),
        *("--attacks", answer(tmp_path / "found.json")),
    )


def test_what_is_private_is_shown_and_the_page_is_stamped(command: Any, tmp_path: Path) -> None:
    done = command(*private(tmp_path), "--json")
    assert done.code == 0 and done.json["private"] is True
    text = (tmp_path / "page.html").read_text()
    assert "PRIVATE" in text and "Before (private)" in text and "0.250 (0.125 to 0.500)" in text
    assert "No better than with random data" not in text and "9 x" in text
    assert text.count("<video") == 2


def test_a_public_page_leaves_out_all_that_is_private_and_says_so(
    command: Any, tmp_path: Path
) -> None:
    assert command(*private(tmp_path), "--public").code == 0
    text = (tmp_path / "page.html").read_text()
    assert "PRIVATE" not in text and "was left out of this page" in text
    assert "Before (private)" not in text and "a stranger" not in text
    assert command("report", FILM, "--out", tmp_path / "plain.html").code == 0
    bare = (tmp_path / "plain.html").read_text()
    assert text.count("<video") == bare.count("<video") == 1


@pytest.mark.parametrize("spoil", ["{", "[]", '{"attack": "x", "attackers": [{}]}'])
def test_what_no_attack_wrote_is_refused(spoil: str, command: Any, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text(spoil)
    done = command("report", FILM, "--attacks", tmp_path / "no.json", "--out", tmp_path / "p.html")
    assert done.code == 4 and "masquerade attack --out" in done.err
    assert not (tmp_path / "p.html").exists()


def test_an_original_stands_beside_one_file_alone(command: Any, tmp_path: Path) -> None:
    folder = BEFORE / "public"
    done = command("report", folder, "--original", FILM, "--out", tmp_path / "p.html")
    assert done.code == 2 and "a page for each" in done.err


def test_the_page_answers_in_the_order_in_which_a_person_asks() -> None:
    some = [Section(title=part.name, body="", part=part) for part in reversed(PagePart)]
    text = page.render_page("t", some)
    places = [text.index(f"<h2>{part.name}</h2>") for part in PagePart]
    assert places == sorted(places)
    assert text.index("<details>") > text.index("<h2>AUDIT"), "receipts and appendix are folded"


def test_a_film_comes_with_two_plain_answers_its_choice_and_its_audit(
    command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "page.html"
    assert command("report", FILM, "--audit", "--public", "--out", target).code == 0
    text = target.read_text()
    order = ["<video", "What is protected", "What is not protected", "this release", "claimed"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    first = text[: text.index("The same, exactly")]
    shown = re.sub("<style>.*?</style>", "", first, flags=re.S)
    assert "epsilon" not in shown and "delta" not in shown, "words for experts are behind a fold"
    assert "Not refuted" in text and 'download="film.mp4.receipt.json"' in text


def stamps(target: Path) -> list[tuple[str, str]]:
    """How each stamp looks, and its first words, whichever files it names."""
    return re.findall(r'class="stamp (\w+)">(?:[a-z., ]+: )?([A-Z ]+):', target.read_text())


def test_only_what_is_proved_and_signed_by_a_key_that_was_named_is_public(
    command: Any, tmp_path: Path, signing_folder: Path
) -> None:
    film, target = tmp_path / "out.mp4", tmp_path / "page.html"
    pooled = "--mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit pixels --pixels 4"
    words = ("release", BEFORE / "private" / "film.mp4", film, *pooled.split())
    assert command(*words).code == 0
    assert command("report", film, "--out", target).code == 0
    text = target.read_text()
    assert stamps(target) == [("doubtful", "NOT VERIFIED")]
    told = command("report", film, "--out", target, "--json").json["stamps"]
    assert told[0].startswith("NOT VERIFIED") and html.escape(told[0]) in text
    assert told[0] in command("report", film, "--out", target).out
    assert "signed by an unknown key" in text and "protected, as the receipt states" in text
    named = ("--signer", signing_folder / "signing-key.pub.pem", "--out", target)
    assert command("report", film, *named).code == 0
    assert stamps(target) == [("public", "PUBLIC")]
    assert "as the receipt states" not in target.read_text()
    assert command("report", film, BEFORE / "public" / "picture.png", *named).code == 0
    assert stamps(target) == [("doubtful", "HEURISTIC"), ("doubtful", "NOT VERIFIED")]
    assert ">picture.png: HEURISTIC: this film" in target.read_text()
    signature_path(receipt_path(film)).unlink()
    assert command("report", film, *named).code == 0
    assert "anyone could have written it" in target.read_text()


def test_a_page_never_says_that_a_heuristic_shows_nothing_of_the_original() -> None:
    for name in catalog.list_entries("mechanisms"):
        mechanism = catalog.make_example("mechanisms", name)
        shapes = ((4, 3),) if name == "gaussian_noise" else ((4, 32, 48, 3),)
        for noise in (Noise(), Noise(seed=1)):
            plan = mechanism.plan(shapes)
            made = write_receipt(
                mechanism, plan, shapes=shapes, noise=noise, output_sha256="0" * 64
            )
            said = " ".join(release_sections.list_cautions(made, is_film=True, is_signed=True))
            if made.is_rehearsal:
                assert said.startswith("REHEARSAL: this film is the original under noise")
            elif made.guarantee.kind is GuaranteeKind.HEURISTIC:
                assert said.startswith("HEURISTIC: this film is the original, but for what")
                assert f"{name} changed to hide {mechanism.hides}." in said
            else:
                assert said == ""
                assert release_sections.list_cautions(made, is_film=True, is_signed=False)


def made_by(mechanism: Any, *, noise: Noise | None = None, **others: Any) -> Receipt:
    """The receipt of a small film."""
    shapes, noise = ((4, 32, 48, 3),), noise or Noise()
    given = {"shapes": shapes, "noise": noise, "output_sha256": "0" * 64, **others}
    return write_receipt(mechanism, mechanism.plan(shapes), **given)


def test_a_sound_that_was_kept_is_not_public() -> None:
    pooled = catalog.make_example("mechanisms", "pooled_gaussian")
    made = made_by(pooled, kept_sound=True)
    (said,) = release_sections.list_cautions(made, is_film=True, is_signed=True)
    assert said.startswith("SOUND: the sound")


def test_of_several_cautions_none_is_lost_and_the_most_telling_is_first() -> None:
    pooled = catalog.make_example("mechanisms", "pooled_gaussian")
    for noise, first in ((Noise(), "DOUBTFUL"), (Noise(seed=1), "REHEARSAL")):
        made = made_by(pooled, noise=noise, kept_sound=True)
        said = release_sections.list_cautions(
            made, is_film=True, is_signed=False, doubt="Looks raw."
        )
        words = [each.partition(":")[0] for each in said]
        assert words[0] == first and {"DOUBTFUL", "SOUND"} < set(words)
        assert ("NOT VERIFIED" in words) != made.is_rehearsal


@pytest.mark.parametrize(
    ("epsilon", "kind", "said"),
    [
        (8, "public", ""),
        (60, "doubtful", "HARDLY PROTECTED: somebody who knows all the rest"),
        (500, "doubtful", "NO GUARANTEE: this film was made from originals, under a proof so weak"),
    ],
)
def test_a_proof_that_is_worth_little_is_not_green(epsilon: float, kind: str, said: str) -> None:
    words = {"epsilon": epsilon, "delta": 1e-4, "unit": "pixels", "pixels": 16}
    made = made_by(make_mechanism("cosine_gaussian", **words))
    cautions = release_sections.list_cautions(made, is_film=True, is_signed=True)
    section = release_sections.write_release_section("", made, is_film=True, cautions=cautions)
    assert page.choose_stamp([section])[0] == kind and "".join(cautions).startswith(said)


def test_times_that_were_kept_are_no_part_of_the_proof() -> None:
    made = made_by(catalog.make_example("mechanisms", "pooled_gaussian"), kept_times=True)
    _, (said,) = page.choose_stamp(
        [release_sections.write_release_section("", made, is_film=True, cautions=())]
    )
    assert said.startswith("PUBLIC") and "but for what is listed as taken as public" in said


def test_a_stamp_names_the_files_that_it_is_of_where_there_are_several() -> None:
    names = ("a.mp4", "b.mp4", "c.mp4", "d.mp4")
    some = [
        Section(title="", body="", cautions=("HEURISTIC: this",), names=names),
        Section(title="", body="", cautions=(), names=("e.mp4",)),
    ]
    assert page.choose_stamp(some) == (
        "doubtful",
        ["a.mp4, b.mp4, c.mp4 and 1 more: HEURISTIC: this"],
    )


def test_audits_of_others_stand_beside_their_claim(command: Any, tmp_path: Path) -> None:
    found = command("audit", "gaussian_noise", "--trials", "400", "--json")
    (tmp_path / "audit.json").write_text(found.out)
    told = ("--audits", tmp_path / "audit.json", "--out", tmp_path / "p.html")
    done = command("report", BEFORE / "public" / "alone.npy", *told, "--json")
    assert done.code == 0 and done.json["private"] is False
    assert "gaussian_noise: Not refuted" in (tmp_path / "p.html").read_text()
    (tmp_path / "audit.json").write_text("[]")
    done = command("report", BEFORE / "public" / "alone.npy", *told)
    assert done.code == 4 and "masquerade audit NAME --json" in done.err


def test_a_page_hands_out_the_very_receipt_that_was_signed(command: Any, tmp_path: Path) -> None:
    film, target = tmp_path / "film.mp4", tmp_path / "p.html"
    shutil.copy(FILM, film)
    said = json.loads(receipt_path(FILM).read_text())
    said["code_version"] = "0.0.1"
    said["guarantee"]["released"] = "words of an older version"
    receipt_path(film).write_text(json.dumps(said))
    assert command("report", film, "--out", target).code == 0
    held = re.findall('href="data:application/json;base64,([^"]+)"', target.read_text())
    assert list(map(base64.b64decode, held)) == [receipt_path(film).read_bytes()]


def edited(receipt: dict[str, Any], how: str) -> None:
    match how:
        case "missing":
            del receipt["guarantee"]["unit"]
        case "newer":
            receipt["format"] = 2
        case "unknown":
            receipt["colour"] = "red"
        case "edited":
            receipt["guarantee"]["epsilon"] = receipt["guarantee"]["epsilon"] / 2


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("missing", "unit"),
        ("newer", "another version of Masquerade wrote it"),
        ("unknown", "colour"),
        ("edited", "It was edited"),
    ],
)
def test_a_receipt_that_cannot_be_trusted_is_refused_with_the_reason(
    how: str, reason: str, command: Any, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(FILM, film)
    said = json.loads(receipt_path(FILM).read_text())
    edited(said, how)
    receipt_path(film).write_text(json.dumps(said))
    done = command("report", film, "--out", tmp_path / "p.html")
    assert done.code == 4 and reason in done.err, done.err
    assert not (tmp_path / "p.html").exists()


def test_numbers_are_drawn_before_and_after(command: Any, tmp_path: Path) -> None:
    told = ("--original", BEFORE / "private" / "monday.npy", "--out", tmp_path / "p.html")
    assert command("report", BEFORE / "public" / "monday.npy", *told).code == 0
    text = (tmp_path / "p.html").read_text()
    assert text.count("<polyline") >= 4 and "PRIVATE" in text and "a number is off by" in text
    done = command("report", FILM, "--original", *told[1:])
    assert done.code == 4 and "film or a picture" in done.err


def test_a_long_and_large_film_is_shown_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "MAX_SECONDS", 1)
    path = tmp_path / "long.mp4"
    rng = np.random.default_rng(3)
    frames = (rng.integers(0, 256, (48, 1302, 3), dtype=np.uint8) for _ in range(12))
    with path.open("wb") as stream:
        write.write_video(stream, frames, suffix=".mp4", rate=Fraction(6))
    copy = media.shrink_film(path)
    assert "the first 1 of about 2 seconds" in copy.note and "434 by 16" in copy.note
    assert len(copy.data) < path.stat().st_size / 4


def test_a_folder_is_one_page_with_each_way_of_release_said_once(
    command: Any, tmp_path: Path
) -> None:
    target = tmp_path / "p.html"
    done = command("report", BEFORE / "public", "--out", target, "--json")
    assert done.code == 0 and done.json["files"] == 10
    text = target.read_text()
    assert text.count("Download ") == 10, "every receipt"
    assert "files, all released in one way" in text and "Not for publication" in text
    assert "this is a rehearsal" in text and GuaranteeKind.NONE.value in text


def test_a_page_replaces_nothing_and_does_not_stand_among_what_is_published(
    command: Any, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(FILM, film)
    shutil.copy(receipt_path(FILM), receipt_path(film))
    before = film.read_bytes()
    done = command("report", film, "--out", film)
    assert done.code == 2 and "ends in .html" in done.err and film.read_bytes() == before
    done = command("report", tmp_path, "--out", tmp_path / "page.html")
    assert done.code == 2 and "outside of the published folder" in done.err
    assert not (tmp_path / "page.html").exists()


def test_a_private_list_among_what_is_published_is_named(command: Any, tmp_path: Path) -> None:
    folder = tmp_path / "public"
    folder.mkdir()
    for path in (FILM, receipt_path(FILM)):
        shutil.copy(path, folder)
    kept = folder / f"film.mp4{PRIVATE_LIST}"
    kept.write_text("")
    words = ("report", folder, "--out", tmp_path / "p.html")
    for each in (words, ("receipt", "check", folder)):
        assert f"! {kept} is PRIVATE: take it out before you publish." in command(*each).out
    assert command(*words, "--json").json["private_lists"] == [str(kept)]


def test_plain_words_never_promise_more_than_the_exact_ones() -> None:
    """A unit smaller than a person is said to be one, and a change as the relation has it."""
    for name in catalog.list_entries("mechanisms"):
        guarantee = catalog.make_example("mechanisms", name).guarantee((4, 16, 16, 3))
        said = answer_plainly(guarantee, is_film=True)
        assert said.is_proved == (guarantee.epsilon is not None)
        bare = "does not protect a whole person" in explain(guarantee)[0]
        assert bare == said.exposed[0].startswith("A whole person."), name
    model = check_receipt(BEFORE / "public" / "model.safetensors").guarantee
    assert "Had it been left out" in answer_plainly(model, is_film=False).protected[1]
