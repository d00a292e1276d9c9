"""What `compare_trees` runs: groups of command lines, the files they begin with, what may differ.

A step is a command without its first word; one that begins with ! changes files (see
`compare_trees.change_files`). Groups that start from "inputs" get a copy of what the group INPUTS
made, and those that start from "before" what version 0.2.0 left on somebody's disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

# Case, key path (both regular expressions), and why they may differ.
ALLOWED: tuple[tuple[str, str, str], ...] = (
    (r"from a shell|help", r"/(out|err)", "the demo is a verb, and recipe says where things went"),
    (r"help entries: release --mechanism (alf|spact) --help", r"/out", "tools have a folder"),
    (r"help entries: train .*|help: train --help", r"/out", "--network lists its choices"),
    (r"help entries: train --data pamap2 --help", r"/out", "a default is shown"),
    (r"train refused: .* --network resnet", r"/err", "the choices in a fixed order"),
    (r"ledger: ledger (export|history) .*", r"/.*/request", "files of a folder have request names"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Steps that follow each other in one process and one folder.

    `is_live`: noise is fresh, so of what is written only the shape is recorded. `is_fresh`: each
    step has an interpreter of its own. `is_slow`: left out by --fast.
    """

    name: str
    steps: list[str]
    start: str = ""
    is_live: bool = False
    is_fresh: bool = False
    is_slow: bool = False


def lines(text: str) -> list[str]:
    """One step a line."""
    return [" ".join(line.split()) for line in text.strip().splitlines() if line.strip()]


WORLD = "--subjects 6 --places 4 --videos 12 --frames 6 --height 48 --width 64"
INPUTS = Group(
    name="inputs",
    steps=lines(f"""
        data sample --json
        data sample
        data write stage --split all {WORLD} --out films --json
        data write stage --split all {WORLD} --out films
        data write stage --split test {WORLD} --out exact --exact --json
        data write stage --kind photos --split all --subjects 6 --photos 12 --photo-px 48 --out photos --json
        data write stage --kind signals --split all --wearers 6 --out worn --json
        data write ucf101 --root . --out x
    """),
)
FILM, PICTURE = "films/videos/00000.mp4", "photo.png"
MEDIA = {
    "film": FILM,
    "picture": PICTURE,
    "frames": "clip.npy",
    "npy": "array.npy",
    "npz": "arrays.npz",
    "csv": "heart.csv",
}
UNITS = ("value", "pixels", "tube", "frame", "video", "record", "subject")
FORMAL = (
    "cosine_gaussian",
    "gaussian_noise",
    "pooled_gaussian",
    "public_mask_gaussian",
    "video_dprp",
)
HEURISTIC = (
    *("alf", "appearance_free", "avatar", "blur", "face_blur", "learned_filter", "low_resolution"),
    *("mosaic", "ppedcrf", "random_mask", "selective_privacy", "spact"),
)
NETWORKS = {
    "alf",
    "avatar",
    "face_blur",
    "ppedcrf",
    "selective_privacy",
    "spact",
    "appearance_free",
}
METHODS = (
    *("dp_sgd", "feature_dp", "feature_projective", "mask_dp", "multi_clip", "pate", "projected"),
    *("public_features", "public_part", "tempdiff"),
)
DATA_SETS = (
    *(
        "coco_keypoints",
        "folder",
        "hmdb51",
        "human_art",
        "manifest",
        "mpii",
        "ntu_rgbd",
        "pa_hmdb51",
    ),
    *("pamap2", "stage", "toyota_smarthome", "ucf101", "vispr", "watch", "wisdm"),
)
PAPERS = ("video_dprp", "mask_dp", "feature_projective", "ppedcrf", "tempdiff")
ATTACKS = (
    *("attribute_inference", "membership", "place_retrieval", "reconstruct", "reidentify"),
    "seed_subtraction",
)
COMMANDS = {
    "account": "gaussian poisson calibrate votes sensitivity published",
    "data": "list check show masks make write sample probe",
    "ledger": "open add enroll show history verify clock export",
    "receipt": "check sign keygen",
}
VERBS = "attack audit estimate evaluate preview release report train utility".split()


def make_odd_files(folder: Path) -> None:
    """Arrays, tables, masks and broken files; numbers come from formulas."""
    import av
    import numpy as np

    def save(name: str, array: object) -> None:
        np.save(folder / name, np.asarray(array))

    row, column = np.mgrid[:24, :32]
    grey = ((row * 5 + column * 3) % 256).astype(np.uint8)
    heart = 60 + (np.arange(24).reshape(8, 3) * 7) % 40
    save("array.npy", heart.astype(np.float64))
    save("whole.npy", heart.astype(np.int16))
    save("single.npy", heart.astype(np.float32))
    save("one.npy", heart[:, 0].astype(np.float64))
    save("clip.npy", np.stack([np.stack([np.roll(grey, 3 * t, 1)] * 3, -1) for t in range(6)]))
    save("empty.npy", np.zeros((0, 3)))
    save("nan.npy", np.where(heart == heart[2, 1], np.nan, heart))
    save("inf.npy", np.where(heart == heart[2, 1], np.inf, heart))
    save("complex.npy", heart.astype(np.complex128))
    save("words.npy", np.array(["a", "b"]))
    np.savez(
        folder / "arrays.npz", heart=heart.astype(np.float64), steps=heart[::2].astype(np.float64)
    )
    shapes = {"film": (6, 48, 64), "picture": (48, 64), "frames": (24, 32), "ward": (240, 320)}
    for name, shape in shapes.items():
        mask = np.zeros(shape, np.uint8)
        mask[..., 8:40, 12:40] = 1
        save(f"mask-{name}.npy", mask)
    np.save(folder / "objects.npy", np.array([{"a": 1}], object), allow_pickle=True)
    (folder / "plain.csv").write_text("\n".join(",".join(map(str, each)) for each in heart) + "\n")
    (folder / "gap.csv").write_text("a,b\n1,2\n3\n")
    (folder / "word.csv").write_text("a,b\n1,2\n3,tall\n")
    (folder / "none.csv").write_text("")
    (folder / "broken.mp4").write_bytes(b"this is no film")
    (folder / "broken.npy").write_bytes(b"\x93NUMPY this is no array")
    (folder / "note.txt").write_text("a note\n")
    (folder / "several" / "deep").mkdir(parents=True)
    for number, name in enumerate(("several/a.npy", "several/b.npy", "several/deep/c.npy")):
        save(name, heart + float(number))
    with av.open(str(folder / "sound.mp4"), "w") as container:
        film, sound = (
            container.add_stream("libx264", rate=10),
            container.add_stream("aac", rate=8000),
        )
        film.width, film.height, film.pix_fmt = 32, 24, "yuv420p"
        for _ in range(6):
            frame = av.VideoFrame.from_ndarray(np.stack([grey] * 3, -1), "rgb24")
            container.mux(film.encode(frame))
        wave = np.sin(np.arange(4800) / 9).astype(np.float32)[None]
        heard = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
        heard.sample_rate = 8000
        container.mux(sound.encode(heard))
        for stream in (film, sound):
            container.mux(stream.encode(None))
    with av.open(str(folder / "photo.png"), "w", format="image2pipe") as container:
        stream = container.add_stream("png", rate=1)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
        picture = np.stack([np.tile(grey, (2, 2)), np.tile(grey.T[:24, :], (2, 3))[:48, :64],
                            255 - np.tile(grey, (2, 2))], -1)  # fmt: skip
        container.mux(
            stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24"))
        )
        container.mux(stream.encode(None))


def settings_of(mechanism: str, unit: str = "frame", medium: str = "film") -> str:
    """The flags that a mechanism needs for a medium."""
    words = f"--mechanism {mechanism}"
    if mechanism in FORMAL:
        words += f" --epsilon 8 --delta 1e-4 --unit {unit}"
        words += " --pixels 16" if unit in ("pixels", "tube") else ""
    if mechanism == "gaussian_noise" and medium in ("npy", "npz", "csv"):
        words += " --low 30 --high 220"
    if mechanism == "public_mask_gaussian":
        words += f" --mask mask-{medium if medium in ('film', 'frames', 'ward') else 'picture'}.npy"
    if mechanism == "learned_filter":
        words += " --network soften"
    return words + (" --heading" if medium == "csv" else "")


def target_of(medium: str) -> str:
    return f"{medium}{Path(MEDIA[medium]).suffix}"


# --- releases ------------------------------------------------------------------------------------


def dry_runs() -> list[Group]:
    """Every mechanism x unit x medium; what is refused is recorded as well."""
    found = []
    for mechanism in (*FORMAL, *HEURISTIC):
        units = UNITS if mechanism in FORMAL else ("frame",)
        steps = [
            f"release {MEDIA[medium]} {target_of(medium)} {settings_of(mechanism, unit, medium)} "
            "--dry-run --json"
            for unit, medium in product(units, MEDIA)
        ]
        steps += [f"release ward.mp4 out.mp4 {settings_of(mechanism)} --dry-run --person-height 90"]
        steps += [f"release {FILM} out.mp4 {settings_of(mechanism)} --dry-run --rehearsal-seed 1"]
        found.append(Group(name=f"dry {mechanism}", start="inputs", steps=steps))
    more = lines("""
        release ward.mp4 out.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit pixels --pixels 256 --dry-run --person-height 90
        release ward.mp4 out.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit subject --dry-run
        release ward.mp4 out.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit value --denoise plain --dry-run --json
        release ward.mp4 out.mp4 --mechanism pooled_gaussian --epsilon 2 --delta 1e-6 --unit tube --pixels 64 --block 16 --length 4 --dry-run --json
        release ward.mp4 out.mp4 --mechanism video_dprp --epsilon 8 --delta 1e-4 --unit frame --form as_published --dry-run --json
        release ward.mp4 out.mp4 --mechanism video_dprp --epsilon 8 --delta 1e-4 --unit frame --form gaussian --columns 300 --dry-run --json
        release ward.mp4 out.mp4 --mechanism video_dprp --epsilon 8 --delta 1e-4 --unit frame --form truncated --radius 5000 --dry-run --json
        release films/videos/00000.mp4 out.mp4 --mechanism public_mask_gaussian --sigma 20 --delta 1e-5 --unit frame --mask mask-film.npy --dry-run --json
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --relation zero_out --low 0 --high 255 --dry-run --json
        release several out --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 255 --dry-run --json
        release several out --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 255 --dry-run
        release several/a.npy several/b.npy out --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit value --low 0 --high 255 --dry-run --json
    """)
    return [*found, Group(name="dry more", start="inputs", steps=more)]


def real_releases() -> list[Group]:
    """Each mechanism on tiny files, with seeded noise; a heuristic that needs none as it is."""
    found = []
    for mechanism in (*FORMAL, *HEURISTIC):
        media = list(MEDIA if mechanism == "gaussian_noise" else ("film", "picture", "frames"))
        steps = [
            f"release {MEDIA[medium]} {target_of(medium)} {settings_of(mechanism, 'frame', medium)} "
            f"--yes --rehearsal-seed 1 {form}".strip()
            for medium in media
            for form in ("--json",)
        ]
        exact = settings_of(mechanism)
        steps += [f"release {FILM} exact.mkv {exact} --yes --rehearsal-seed 2 --exact"]
        if mechanism not in NETWORKS:
            large = settings_of(mechanism, "frame", "ward")
            steps += [f"release ward.mp4 large.mp4 {large} --yes --rehearsal-seed 3 --json"]
        steps += [
            "receipt check film.rehearsal.mp4 --explain",
            "receipt check film.rehearsal.mp4 --json",
        ]
        found.append(Group(name=f"real {mechanism}", start="inputs", steps=steps,
                           is_slow=mechanism in NETWORKS))  # fmt: skip
    seeds = "--yes --rehearsal-seed 1 --json"
    target = "--epsilon 8 --delta 1e-4"
    forms = lines(f"""
        release {FILM} a.mp4 --mechanism video_dprp {target} --unit frame --form gaussian --columns 30 {seeds}
        release {FILM} b.mp4 --mechanism video_dprp {target} --unit frame --form truncated --radius 5000 {seeds}
        release {FILM} c.mp4 --mechanism video_dprp --epsilon 8 --delta 1e-4 --unit frame --form as_published --columns 30 {seeds}
        release {FILM} d.mp4 --mechanism cosine_gaussian {target} --unit pixels --pixels 16 {seeds}
        release {FILM} e.mp4 --mechanism cosine_gaussian {target} --unit value --denoise plain {seeds}
        release {FILM} f.mp4 --mechanism cosine_gaussian {target} --unit tube --pixels 16 {seeds}
        release {FILM} g.mp4 --mechanism pooled_gaussian {target} --unit pixels --pixels 4 --block 8 --length 2 {seeds}
        release {FILM} h.mp4 --mechanism public_mask_gaussian --sigma 20 --delta 1e-5 --unit value --mask mask-film.npy {seeds}
        release {FILM} i.mp4 --mechanism mosaic --region given --masks mask-film.npy {seeds}
        release {FILM} j.mp4 --mechanism blur --region given --masks mask-film.npy --kernel 9 {seeds}
        release {FILM} k.mp4 --mechanism random_mask --fill noise --redraw video {seeds}
        release {FILM} l.mp4 --mechanism random_mask --region given --masks mask-film.npy --share 1 {seeds}
        release {FILM} m.mp4 --mechanism ppedcrf --people given --masks mask-film.npy --shape grain {seeds}
        release {FILM} n.mp4 --mechanism selective_privacy --region given --masks mask-film.npy {seeds}
        release {FILM} o.mp4 --mechanism low_resolution --columns 16 --rows 12 {seeds}
        release array.npy p.npy --mechanism gaussian_noise {target} --unit subject --low 0 --high 255 {seeds}
        release whole.npy q.npy --mechanism gaussian_noise {target} --unit value --low 0 --high 255 {seeds}
        release single.npy r.npy --mechanism gaussian_noise {target} --unit video --relation zero_out --low 0 --high 255 {seeds}
        release one.npy s.npy --mechanism gaussian_noise {target} --unit pixels --pixels 2 --low 0 --high 255 {seeds}
        release plain.csv t.csv --mechanism gaussian_noise {target} --unit frame --low 0 --high 255 {seeds}
        release ward.mp4 u.mkv --mechanism mosaic --json
        release ward.mp4 w.mp4 --mechanism mosaic --keep-audio
        release sound.mp4 w.mp4 --mechanism mosaic --keep-audio --json
        release sound.mp4 x.mp4 --mechanism mosaic
        release photo.png v.jpg --mechanism mosaic --json
        utility {FILM} a.rehearsal.mp4 --json
        utility ward.mp4 u.mkv --every 8
    """)
    return [*found, Group(name="real forms", start="inputs", steps=forms)]


GAUSS = "--mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 0 --high 255"


def release_rules() -> list[Group]:
    """Folders, resuming, overwriting, and what is refused."""
    folders = Group(name="folders", start="inputs", steps=lines(f"""
        release several out {GAUSS} --rehearsal-seed 5 --keep-names --jobs 1 --json
        release several out {GAUSS} --rehearsal-seed 5 --keep-names --jobs 1
        release several out {GAUSS} --rehearsal-seed 5 --keep-names --jobs 1 --resume --json
        !rm out/a*
        release several out {GAUSS} --rehearsal-seed 5 --keep-names --jobs 1 --resume --json
        release several out {GAUSS} --rehearsal-seed 6 --keep-names --jobs 2 --overwrite --json
        release several/a.npy several/b.npy two {GAUSS} --rehearsal-seed 5 --keep-names --jobs 1
        release films/videos few --mechanism mosaic --keep-names --suffix .mkv --jobs 1 --json
        receipt check few --json
        receipt check out
        release several several {GAUSS} --json
        release several out {GAUSS} --suffix .mp4
        release note.txt out {GAUSS}
        !mkdir hollow
        release hollow out9 {GAUSS}
    """))  # fmt: skip
    live = Group(name="live", start="inputs", is_live=True, steps=lines(f"""
        release array.npy out.npy {GAUSS} --json
        release array.npy out.npy {GAUSS}
        release array.npy out.npy {GAUSS} --resume --json
        release array.npy out.npy {GAUSS} --overwrite
        release array.npy out.npy {GAUSS} --resume --overwrite
        receipt check out.npy --json
        receipt check out.npy --explain
        receipt check out.npy --require-signature
        release heart.csv heart-public.csv --heading --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 30 --high 220
        release {FILM} film.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit subject
        release {FILM} film.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit subject --yes
        release {FILM} film2.mp4 --mechanism pooled_gaussian --epsilon 8 --delta 1e-4 --unit frame --yes --json
        release several opaque {GAUSS} --jobs 1 --names names.json
        receipt keygen own.pem
        receipt keygen own.pem
        receipt keygen own.pem --rotate --json
        receipt sign out.npy --key own.pem --json
        receipt check out.npy --signer own.pub.pem
        receipt check film.mp4 --signer own.pub.pem
        receipt check film.mp4 --signer own.pub.pem --require-signature --json
        receipt sign note.txt --key own.pem
        !append film2.mp4
        receipt check film2.mp4
        receipt check film2.mp4 --json
        !rm out.npy.receipt.json
        receipt check out.npy
        receipt check nothing.npy
        report film.mp4 heart-public.csv --out page.html --json
        report film.mp4 --out own.html --original {FILM}
        report film.mp4 --out own.html --original {FILM} --public
        report heart-public.csv --out audited.html --public --signer own.pub.pem
        report nothing.mp4
        report note.txt --out n.html
    """))  # fmt: skip
    refused = Group(name="refused", start="inputs", steps=lines(f"""
        release
        release array.npy
        release array.npy out.npy
        release array.npy out.npy --mechanism blurr
        release array.npy out.npy --mechanism gaussian --json
        release array.npy out.npy --mechanism gaussian_noise
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --json
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit person --low 0 --high 1
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit shard --low 0 --high 1
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit frame --low 9 --high 0
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-5 --unit pixels --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon 0 --delta 1e-5 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon=-1 --delta 1e-5 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon nan --delta 1e-5 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon inf --delta 1e-5 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 2 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon 8 --delta 0 --unit frame --low 0 --high 9
        release array.npy out.npy --mechanism gaussian_noise --epsilon one --delta 1e-5 --unit frame
        release array.npy out.npy --mechanism gaussian_noise --epsilom 1 --delta 1e-5 --unit frame
        release array.npy out.npy --mechanism gaussian_noise --epsilon --delta 1e-5
        release array.npy out.npy {GAUSS} --backend dusk
        release array.npy out.npy {GAUSS} --device tpu
        release array.npy out.npy {GAUSS} --jobs 0
        release array.npy out.npy {GAUSS} --block 3
        release array.npy out.npy {GAUSS} --rehearsal-seed=-1
        release array.npy out.npy {GAUSS} --max-bytes 16
        release array.npy out.npy {GAUSS} --ledger=
        release array.npy out.npy {GAUSS} --ledger none/there.db
        release array.npy out.csv {GAUSS}
        release array.npy out.mp4 {GAUSS}
        release array.npy out.xyz {GAUSS}
        release array.npy array.npy {GAUSS}
        release array.npy none/out.npy {GAUSS}
        release array.npy several {GAUSS}
        release nothing.npy out.npy {GAUSS}
        release nothing.npy out.npy {GAUSS} --json
        release nan.npy out.npy {GAUSS}
        release nan.npy out.npy {GAUSS} --json
        release inf.npy out.npy {GAUSS}
        release empty.npy out.npy {GAUSS}
        release complex.npy out.npy {GAUSS}
        release words.npy out.npy {GAUSS}
        release objects.npy out.npy {GAUSS}
        release broken.npy out.npy {GAUSS}
        release broken.mp4 out.mp4 --mechanism mosaic
        release note.txt out.npy {GAUSS}
        release heart.csv out.csv {GAUSS}
        release gap.csv out.csv {GAUSS} --heading
        release word.csv out.csv {GAUSS} --heading
        release none.csv out.csv {GAUSS}
        release {FILM} out.png --mechanism mosaic
        release {FILM} out.mp4 --mechanism mosaic --block 1
        release {FILM} out.mp4 --mechanism mosaic --region given
        release {FILM} out.mp4 --mechanism mosaic --region given --masks mask-ward.npy
        release {FILM} out.mp4 --mechanism blur --kernel 4
        release {FILM} out.mp4 --mechanism mosaic --epsilon 3
        release {FILM} out.mp4 --mechanism public_mask_gaussian --epsilon 8 --delta 1e-5 --unit frame --mask mask-ward.npy
        release {FILM} out.mp4 --mechanism public_mask_gaussian --epsilon 8 --delta 1e-5 --unit frame --mask none.npy
        release {FILM} out.mp4 --mechanism learned_filter --network none.onnx
        release ward.mp4 out.mp4 --mechanism mosaic --max-pixels 100
        release ward.mp4 out.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit subject
        receipt
        receipt chek
        receipt check
        utility ward.mp4 {FILM}
        utility ward.mp4 nothing.mp4
        estimate nothing.safetensors photo.png
        evaluate nothing.safetensors --data stage
        evaluate nothing.safetensors --dat stage
        evaluate note.txt --data stage
        preview nothing.mp4
        preview array.npy
        preview {FILM} --mechanism mosaic
        preview {FILM} --units person
    """))  # fmt: skip
    preview = Group(name="preview", start="inputs", is_slow=True, steps=lines(f"""
        preview {FILM} --frames 4 --json
        preview {FILM} --frames 4 --units pixels subject --epsilons 4 --pixels 16 --out own.svg --private
        preview photo.png
        preview photo.png
        preview photo.png --overwrite
    """))  # fmt: skip
    return [folders, live, refused, preview]


# --- accounting, ledger, data, audits, attacks ---------------------------------------------------


def account_groups() -> list[Group]:
    poisson = "--noise-multiplier 4 --sampling-prob 0.01 --steps 1000 --delta 1e-5"
    calls = lines(f"""
        account gaussian --epsilon 8 --delta 1e-4 --sensitivity 1
        account gaussian --noise-std 0.5430751 --delta 1e-4
        account gaussian --epsilon 1 --delta 1e-6 --sensitivity 3.5 --releases 12
        account gaussian --epsilon 8 --delta 1e-4 --releases 4
        account votes --aggregator lnmax --gamma 0.01 --queries 1600 --delta 1e-5 --shards-per-subject 2
        account sensitivity --unit pixels --pixels 16 --frames 16 --height 240 --width 320 --block 16 --columns 3072
        account gaussian --epsilon 8 --delta 1e-4 --noise-std 1
        account gaussian --delta 1e-4
        account gaussian --epsilon nan --delta 1e-4
        account gaussian --epsilon 8 --delta 1
        account poisson {poisson}
        account poisson {poisson} --group 3
        account poisson --noise-multiplier 0.6 --sampling-prob 0.2 --steps 20 --delta 1e-5
        account poisson --noise-multiplier 4 --sampling-prob 1.5 --steps 1000 --delta 1e-5
        account calibrate --epsilon 1 --delta 1e-5 --sampling-prob 0.01 --steps 1000 --relation zero_out
        account calibrate --epsilon 1 --delta 1e-5 --sampling-prob 0.01 --steps 1000
        account calibrate --epsilon 3 --delta 1e-5 --sampling-prob 0.05 --steps 100 --relation add_remove
        account calibrate --epsilon 2 --delta 1e-5 --sampling-prob 0.01 --steps 1000 --revealed
        account votes --aggregator lnmax --gamma 0.1 --queries 1000 --delta 1e-5
        account votes --aggregator lnmax --gamma 0.1 --queries 1000 --delta 1e-5 --shards-per-subject 1
        account votes --aggregator lnmax --gamma 0.1 --queries 100 --delta 1e-5 --shards-per-subject 3
        account votes --aggregator gnmax --noise-std 40 --queries 1000 --delta 1e-5
        account votes --aggregator gnmax --epsilon 2 --queries 300 --delta 1e-5
        account votes --aggregator lnmax --epsilon 2 --queries 300 --delta 1e-5
        account votes --aggregator gumbel --gamma 0.05 --queries 200 --delta 1e-5
        account votes --aggregator gumbel --epsilon 2 --queries 200 --delta 1e-5
        account votes --aggregator confident --noise-std 40 --threshold-std 150 --cap 200 --queries 1000 --delta 1e-5
        account votes --aggregator confident --noise-std 40 --queries 1000 --delta 1e-5
        account votes --aggregator gnmax --gamma 3 --queries 1000 --delta 1e-5
        account votes --aggregator none --queries 1000 --delta 1e-5
        account sensitivity --unit frame --frames 64 --height 240 --width 320
        account sensitivity --unit pixels --pixels 256 --frames 64 --height 240 --width 320 --block 8 --length 4
        account sensitivity --unit tube --pixels 256 --frames 64 --height 240 --width 320 --columns 3072
        account sensitivity --unit shard --frames 64 --height 240 --width 320
        account published --paper video_dprp --epsilon 8 --delta 1e-4
        account published --paper video_dprp --epsilon 2 --delta 1e-5 --columns 300 --height 48 --width 64
        account published --paper tempdiff --queries 100
        account published --paper videodprp
        account gausian
        account
    """)
    calls += [f"account published --paper {paper}" for paper in PAPERS]
    return [
        Group(name="account json", steps=[f"{call} --json" for call in calls]),
        Group(name="account text", steps=calls[::2]),
    ]


def ledger_groups() -> list[Group]:
    book = "--ledger budget.db"
    two = "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low 0 --high 255"
    spent = Group(name="ledger", start="inputs", is_live=True, steps=lines(f"""
        ledger open ward {book} --epsilon 6 --delta 1e-4 --unit frame --json
        ledger open ward {book} --epsilon 6 --delta 1e-4 --unit frame
        ledger open people {book} --epsilon 8 --delta 1e-4 --unit subject --filter renyi
        ledger open trained {book} --epsilon 8 --delta 1e-4 --unit record --filter renyi --expect-sampling-prob 0.1 --expect-steps 50
        ledger open masked {book} --epsilon 8 --delta 1e-4 --unit video --public background --relation zero_out --json
        ledger open wrong {book} --epsilon 8 --delta 1e-4 --unit person
        ledger open wrong {book} --epsilon 8 --delta 1e-4
        ledger open wrong {book} --epsilon 8 --delta 1e-4 --unit frame --order 3
        ledger open wrong {book} --epsilon 8 --delta 1e-4 --unit pixels
        ledger add ward array.npy heart.csv several --heading {book} --json
        ledger add ward array.npy {book}
        ledger add ward nothing.npy {book}
        ledger add nobody array.npy {book}
        ledger add people {FILM} {book}
        ledger add people {FILM} --subject anna {book}
        ledger add people exact/videos --subject ben {book} --json
        ledger add masked {FILM} --same-as nothing.npy {book}
        ledger show {book} --json
        ledger show {book}
        release array.npy dry.npy {two} {book} --dry-run
        release array.npy dry.npy {two} {book} --dry-run --json
        release array.npy out.npy {two} {book} --json
        release array.npy out.npy {two} {book}
        release array.npy out.npy {two} {book} --resume
        release array.npy more.npy {two} {book}
        release array.npy most.npy {GAUSS} {book}
        release array.npy most.npy {GAUSS} {book} --json
        release array.npy most.npy {GAUSS} {book} --dry-run
        release one.npy most.npy {two} {book}
        release array.npy other.npy --mechanism gaussian_noise --epsilon 1 --delta 1e-5 --unit value --low 0 --high 255 {book}
        release array.npy try.npy {two} {book} --rehearsal-seed 1
        release {FILM} place.mp4 --mechanism mosaic {book}
        release several charged {two} {book} --keep-names --jobs 1 --json
        release several charged {two} {book} --keep-names --jobs 1 --resume
        release several again {GAUSS} {book} --keep-names --jobs 1
        release {FILM} person.mp4 --mechanism cosine_gaussian --epsilon 4 --delta 1e-5 --unit subject --yes {book}
        ledger show ward {book} --json
        ledger show ward {book}
        ledger show nobody {book}
        ledger show --ledger nothing.db
        ledger history {book} --json
        ledger history {book}
        ledger verify {book} --json
        ledger verify {book} --receipts . --json
        ledger verify {book} --receipts charged
        ledger clock {book}
        ledger clock {book} --accept --json
        ledger export {book} book.json
        ledger export {book} book.json --json
        ledger export --ledger nothing.db x.json
        ledger opne ward {book}
        ledger
        report out.npy --ledger budget.db --out page.html
        report out.npy --ledger budget.db --out public.html --public
        !append budget.db
        ledger show --ledger note.txt
    """))  # fmt: skip
    worn = "--data watch --root private/watch.npy"
    mon = "release private/monday.npy public/monday.npy"
    gaussian = (
        "--mechanism gaussian_noise --epsilon 2 --delta 1e-5 --unit frame --low -20 --high 20"
    )
    sgd = f"--method dp_sgd {worn} --public-subjects 1 --test-subjects 2 --epsilon 2 --unit subject"
    sgd += " --recordings 7 --part all --segments 2 --batch 2 --epochs 4 --lstm-hidden 4 --lstm-window 10"
    votes = f"--epsilon 2 --unit subject {worn} --public-subjects 1 --test-subjects 2 --shards 3"
    votes += (
        " --teacher nearest --queries 10 --hidden 4 --student-epochs 1 --method pate --windows 10"
    )
    before = Group(name="version before", start="before", is_live=True, steps=lines(f"""
        receipt check public --json
        receipt check public
        receipt check public/alone.npy --signer ward.pub.pem
        receipt check public/alone.npy --signer ward.pub.pem --require-signature --json
        receipt check public/monday.npy public/film.mp4 --explain
        ledger show {book} --json
        ledger show {book}
        ledger history {book} --json
        ledger verify --receipts public {book} --json
        evaluate public/model.safetensors {worn} --subjects 2 --json
        evaluate public/student.safetensors {worn} --subjects 2
        evaluate public/student.safetensors {worn} --ledger budget.db
        audit public/model.safetensors --canaries 60 --films 4 --json
        audit public/student.safetensors --canaries 60 --films 4 --json
        report public --out report.html
        {mon} {gaussian} {book}
        release private/tuesday.npy public/tuesday.npy {gaussian} {book} --json
        release private/wednesday.npy public/wednesday.npy {gaussian} {book}
        release private/film.mp4 public/film.mp4 --mechanism cosine_gaussian --epsilon 8 --delta 1e-4 --unit frame --yes {book}
        release private/monday.npy public/more.npy {gaussian.replace("epsilon 2", "epsilon 25")} {book}
        release private/ward public/ward {gaussian} --jobs 1 --names names.private.json --resume --json
        train stopped.safetensors {sgd.replace("epochs 4", "epochs 5")} --checkpoint-every 2 {book}
        train stopped.safetensors {sgd} --checkpoint-every 2 {book} --json
        train voted.safetensors {votes} {book} --json
        ledger show {book}
        ledger verify --receipts . {book} --json
        ledger export {book} book.json
    """))  # fmt: skip
    return [spent, before]


def data_groups() -> list[Group]:
    steps = lines(f"""
        data list --json
        data list
        data check stage {WORLD} --json
        data check stage {WORLD} --recordings
        data check manifest --table films.csv --json
        data check manifest --table films.csv --recordings
        data check manifest --table photos.csv --kind photos
        data check manifest --table worn.csv --kind signals --rate-hz 50
        data check manifest --table plain.csv
        data check manifest
        data check folder --root films --json
        data check ucf101 --root films
        data check ucf101
        data check nobody
        data show manifest --table films.csv --count 2 --out shown --json
        data show stage {WORLD} --count 2 --out stage-shown
        data show stage --kind photos --subjects 6 --photos 4 --photo-px 48 --count 2 --out photos-shown
        data probe ward.mp4 {FILM} photo.png --json
        data probe ward.mp4 photo.png
        data probe broken.mp4
        data probe nothing.mp4
        data probe ward.mp4 --max-pixels 10
        data sample --out more --json
        data write manifest --table films.csv
        data make ucf101 --root .
        data masks stage masks --side both
        data prob
        data
    """)
    masks = lines(f"""
        data masks manifest --table films.csv masks --side background --json
        data masks manifest --table films.csv masks --side background
        data masks stage {WORLD} person --side person --mask-threshold 0.5 --mask-margin 0
    """)
    return [
        Group(name="data", start="inputs", steps=steps),
        Group(name="masks", start="inputs", steps=masks, is_slow=True),
    ]


def audit_groups() -> list[Group]:
    games = (
        "confident_votes gnmax_votes gumbel_votes mask_dp_batches tempdiff_votes video_dprp_value"
    )
    steps = ["audit", "audit --json", "audit gausian_noise", "audit --trails 3"]
    steps += [f"audit {name} --trials 200 --json" for name in (*games.split(), *FORMAL)]
    steps += [f"audit {name} --trials 50" for name in (*games.split(), *FORMAL)]
    steps += lines("""
        audit video_dprp_value --form sound --trials 100 --json
        audit video_dprp_value --form none --trials 100
        audit cosine_gaussian --sees video --trials 20 --json
        audit gaussian_noise --sees video
        audit gaussian_noise --trials 0
        audit gaussian_noise --trials 100 --confidence 0.99 --json
        audit mosaic
        audit nothing.safetensors
    """)
    canaries = [
        f"audit {name} --canaries 60 --films 4 --json" for name in METHODS if "public" not in name
    ]
    return [Group(name="audit", steps=steps), Group(name="canaries", steps=canaries, is_slow=True)]


def attack_groups() -> list[Group]:
    small = (
        "--data stage --subjects 12 --videos 36 --frames 2 --height 32 --width 32 --bystanders 0.0"
    )
    look = "--steps 2 --pictures 1"
    steps = lines(f"""
        attack
        attack --json
        attack reidentfy
        attack attribute_inference
        attack attribute_inference nothing --data stage
        data write stage --split test {small.removeprefix("--data stage ")} --out private
        release private published --mechanism mosaic --keep-names --jobs 1
        attack attribute_inference published {small} {look} --json
        attack attribute_inference published {small} {look} --out answer.json
        attack attribute_inference {small} {look} --mechanism pooled_gaussian --unit frame --epsilon 4 --delta 1e-5 --json
        attack reconstruct published {small} --lessons 2 --samples 200 --frames 2 --json
        attack reconstruct {small} --mechanism mosaic --lessons 2 --samples 200 --frames 2
        attack seed_subtraction {small} --mechanism pooled_gaussian --unit frame --epsilon 4 --delta 1e-5 --json
        attack reidentify published {small} --by body
        release private some --mechanism mosaic --keep-names --jobs 1
        !rm some/*/0003[2345]*
        !rm some/0003[2345]*
        attack reidentify some {small} --by body --json
        attack reidentify some {small} --by silhouette
        attack place_retrieval {small} --mechanism epsilon
        attack membership published {small}
        report published --attacks answer.json --out page.html
    """)
    return [Group(name="attack", steps=steps, is_slow=True)]


# --- training ------------------------------------------------------------------------------------

FILMS = "--data stage --subjects 6 --places 4 --videos 36 --frames 16 --height 64 --width 64"
PHOTOS = "--data stage --subjects 6 --places 4 --photos 36 --joints mpii"
WORN = "--data watch --root private/watch.npy --public-subjects 1 --test-subjects 2"


def training_groups() -> list[Group]:
    kinds = {
        "films": f"{FILMS} --batch 4 --epochs 2 --unit video",
        "photos": f"{PHOTOS} --task pose --batch 4 --epochs 1 --unit record",
        "signals": "--data stage --wearers 6 --network lstm --batch 4 --epochs 2 --unit subject",
    }
    dry = [
        f"train m.safetensors --method {method} --epsilon 8 {words} --dry-run --json"
        for method, words in product(METHODS, kinds.values())
    ]
    dry += [
        f"train m.safetensors --method {method} --epsilon 8 --unit {unit} --data stage --wearers 60 "
        "--shards 4 --queries 10 --windows 32 --dry-run --json"
        for method, unit in product(("pate", "tempdiff"), ("subject", "shard", "record"))
    ]
    dry += lines(f"""
        train m.safetensors --method dp_sgd --epsilon 8 --unit subject {FILMS} --dry-run
        train m.safetensors --method mask_dp --epsilon 1 --unit video {FILMS} --dry-run
        train m.safetensors --method mask_dp --epsilon 1 --unit video {FILMS} --form as_published --dry-run --json
        train m.safetensors --method dp_sgd --epsilon inf --unit video {FILMS} --dry-run --json
        train m.safetensors --method tempdiff --data stage --wearers 120 --teacher forest --shards 20 --windows 96 128 --epsilon 2 --unit subject --queries 100 --dry-run
        train m.safetensors --method tempdiff --data stage --wearers 120 --shards 20 --aggregator lnmax --gamma 0.1 --unit subject --dry-run --json
    """)
    refused = lines(f"""
        train
        train --method none
        train m.safetensors --method dp_sgd
        train m.safetensors --method dp_sgd --data nobody
        train m.safetensors --method dp_sgd --epsilon one --unit video {FILMS}
        train m.safetensors --method dp_sgd --epsilon 1 {FILMS}
        train m.safetensors --method dp_sgd --epsilon 1 --unit person {FILMS}
        train m.pth --method dp_sgd --epsilon 1 --unit video {FILMS}
        train none/m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS}
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS} --grid epsilon=1,2
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS} --network resnet
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS} --precision bfloat16
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS} --device cuda
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {FILMS} --weights none.safetensors
        train m.safetensors --method mask_dp --epsilon 1 --unit video {FILMS} --masks none
        train m.safetensors --method dp_sgd --epsilon 1 --unit video {PHOTOS} --task pose
        train m.safetensors --method mask_dp --epsilon 1 --unit subject {WORN}
    """)
    seed = "--rehearsal-seed 1 --json"
    sgd = f"{WORN} --epsilon 2 --unit subject --recordings 7 --part all --segments 2 --batch 2 --epochs 4"
    sgd += " --lstm-hidden 4 --lstm-window 10"
    votes = (
        f"{WORN} --epsilon 2 --unit subject --shards 3 --queries 10 --hidden 4 --student-epochs 1"
    )
    tested = "--data watch --root private/watch.npy --subjects 2"
    worn = lines(f"""
        train sgd.safetensors --method dp_sgd {sgd} {seed}
        train sgd.safetensors --method dp_sgd {sgd} {seed}
        train clip.safetensors --method multi_clip {sgd.replace("--segments 2", "--segments 3")} {seed}
        train projected.safetensors --method projected {sgd} {seed}
        train tempdiff.safetensors --method tempdiff --teacher nearest --windows 6 10 {votes} {seed}
        train pate.safetensors --method pate --teacher forest --windows 10 {votes} {seed}
        train lstm.safetensors --method tempdiff --teacher lstm --teacher-epochs 1 --windows 10 {votes} {seed}
        train lnmax.safetensors --method pate --aggregator lnmax --teacher nearest --windows 10 {votes} {seed}
        train gumbel.safetensors --method pate --aggregator gumbel --teacher nearest --windows 10 {votes} {seed}
        evaluate sgd.rehearsal.safetensors {tested} --json
        evaluate tempdiff.rehearsal.safetensors {tested} --json
        evaluate pate.rehearsal.safetensors lstm.rehearsal.safetensors {tested}
        evaluate sgd.rehearsal.safetensors --data watch --root private/watch.npy
        receipt check sgd.rehearsal.safetensors --explain
        receipt check tempdiff.rehearsal.safetensors
        ledger open people --ledger train.db --unit subject --epsilon 8 --delta 1e-4 --filter renyi
        ledger enroll people --ledger train.db {tested.replace("2", "3 4 5")} --json
        train charged.safetensors --method dp_sgd {sgd} --ledger train.db --dry-run
        ledger show --ledger train.db --json
        report sgd.rehearsal.safetensors --out page.html
    """)
    films = lines(f"""
        train sgd.safetensors --method dp_sgd --epsilon 8 --unit video {FILMS} --part head --batch 4 --epochs 1 --from-scratch {seed}
        train mask.safetensors --method mask_dp --epsilon 8 --unit video {FILMS} --part head --batch 4 --epochs 1 --from-scratch {seed}
        train public.safetensors --method public_part --epsilon 8 --unit video {FILMS} --part head --batch 4 --epochs 1 --from-scratch {seed}
        train all.safetensors --method dp_sgd --epsilon 8 --unit subject {FILMS} --part last_norms --batch 2 --epochs 1 {seed}
        evaluate sgd.rehearsal.safetensors {FILMS} --json
        evaluate mask.rehearsal.safetensors {FILMS}
    """)
    pose = lines(f"""
        train sgd.safetensors --method dp_sgd --task pose --epsilon 8 --unit record {PHOTOS} --batch 4 --epochs 1 {seed}
        train feature.safetensors --method feature_dp --task pose --epsilon 8 --unit record {PHOTOS} --batch 4 --epochs 1 {seed}
        train projective.safetensors --method feature_projective --public-records 16 --directions 4 --task pose --epsilon 8 --unit record {PHOTOS} --batch 4 --epochs 1 {seed}
        evaluate sgd.rehearsal.safetensors {PHOTOS} --json
        data write stage --kind photos --split test --subjects 6 --photos 36 --places 4 --out photos
        estimate sgd.rehearsal.safetensors photos/photos --out joints --json
    """)
    return [
        Group(name="train dry", steps=dry, start="before", is_slow=True),
        Group(name="train refused", steps=refused, start="before"),
        Group(name="train worn", steps=worn, start="before", is_slow=True),
        Group(name="train films", steps=films, is_slow=True),
        Group(name="train pose", steps=pose, is_slow=True),
    ]


def is_learned(case: str) -> bool:
    """Whether what a case prints was computed by networks, in sums of any order."""
    return case.startswith(("train ", "canaries", "attack", "version before", "masks"))


# --- help ----------------------------------------------------------------------------------------


def help_groups() -> list[Group]:
    pages = ["--help", "", "-h", "--version", "nothing", "relese", "--json", "help"]
    pages += [f"{verb} --help" for verb in (*COMMANDS, *VERBS)]
    pages += [f"{verb} {name} --help" for verb, names in COMMANDS.items() for name in names.split()]
    entries = [f"release --mechanism {name} --help" for name in (*FORMAL, *HEURISTIC)]
    entries += [f"train --method {name} --help" for name in METHODS]
    entries += [f"account published --paper {name} --help" for name in PAPERS]
    entries += [f"attack {name} --help" for name in ATTACKS]
    entries += [f"{verb} --data {name} --help" for name in DATA_SETS for verb in ("train",)]
    entries += [
        f"data {verb} {name} --help"
        for name in ("stage", "manifest")
        for verb in ("check", "write")
    ]
    entries += lines("""
        attack reidentify --data stage --mechanism pooled_gaussian --help
        train --method dp_sgd --data stage --help
        evaluate --data stage --help
        ledger enroll --data stage --help
        release a.mp4 b.mp4 --mechanism blur --help
        release --mechanism blurr --help
        release extra words there --mechanism blur --unit frame
        attack --mechanism blur
        data check stage --split none
        audit gaussian_noise extra
        account gaussian extra --delta 1e-4
        train m.safetensors --method mask_dp --data stage --epsilon one --unit subject
    """)
    fresh = ["--version", "--help", "", "release --help", "nothing", "nothing --json", "account gaussian --delta 1e-4",
             "account gaussian --epsilon 8 --delta 1e-4 --json", "release --mechanism blur --help"]  # fmt: skip
    return [
        Group(name="help", steps=pages),
        Group(name="help entries", steps=entries),
        Group(name="from a shell", steps=fresh, is_fresh=True),
    ]


def all_groups() -> list[Group]:
    """Long ones first, so that two processes end together."""
    slow = [*training_groups(), *audit_groups()]
    others = [
        *attack_groups(),
        *ledger_groups(),
        *real_releases(),
        *release_rules(),
        *data_groups(),
    ]
    return [*slow, *others, *dry_runs(), *account_groups(), *help_groups()]
