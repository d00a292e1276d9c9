"""What `avatar` leaves of people on Stage, how long each step takes, and how memory grows.

    python benchmarks/avatar.py cover [FILMS] [WORLD]  share of people's pixels left visible
    python benchmarks/avatar.py cut [FILMS]     the same of people whom a border cuts in half
    python benchmarks/avatar.py residue [FILMS] what of people's looks is left in the emptied film
    python benchmarks/avatar.py steps           CPU milliseconds a frame by step, 720p, one thread
    python benchmarks/avatar.py clock           frames a second, file to file, 720p and 480p
    python benchmarks/avatar.py twice           the same in memory, of each of the two readings
    python benchmarks/avatar.py memory          peak memory of a minute at 5 Hz and of ten
    python benchmarks/avatar.py sheet FILE.png  before, emptied, released, and masks

Films of Stage are generated, so where people are is known to the pixel. Times are those of the
processor, but for `clock` and `twice`, which want a machine with nothing else to do. `cover` takes
two seconds a film.
"""

import cProfile
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np

from masquerade.avatars.avatar import Avatar
from masquerade.avatars.segment import grow_mask
from masquerade.avatars.watch import blur_region
from masquerade.datasets.stage import Stage
from masquerade.io.video import write
from masquerade.noise import Noise
from masquerade.stage import backdrop, bodies, figure, plan, takes

SAME, OTHER = 8, 30  # shades: released as it was, and other than the place
MASKS = {"q": (200, 214, 229), "r": (120, 170, 60), "eroded_r": (20, 60, 20)}
STEPS = {  # in the profile: file and function
    "pose: find and follow": ("pose_landmarks.py", "film"),
    "segment: masks": ("segment.py", "next"),
    "watch: missed people": ("watch.py", "look"),
    "plates: the place": ("scene.py", "_learn_place"),
    "body: fit": ("study.py", "_fit"),
    "masks over time": ("scene.py", "people"),
    "inpaint: empty": ("inpaint.py", "emptied"),
    "render: draw": ("render.py", "drawn"),
    "merge": ("merge.py", "merged"),
}


def films(count: int, **fields: object) -> Stage:
    """Every second film has two people."""
    size = {"height": 360, "width": 480, "frames": 16} | fields
    return Stage(preset="small", videos=max(12, count), bystanders=0.5, **size)


def cover(count: int, world: int = 0) -> None:
    """Of each film: people's pixels outside of q, and those that are released as they were.

    As they were: within 8 shades of the film, and more than 30 from the empty place. A figure in
    like colours counts, too.
    """
    stage = films(count, seed=world)
    rows = []
    for number in range(count):
        film = stage.make_staged_film(number)
        frames, true = film.frames, film.owner >= 0
        noise = Noise()
        study = Avatar().first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
        with closing(study):
            out = np.stack(list(study.stream(iter(frames), frames.shape, noise)))
            q = np.stack([study._made["q"][at] for at in range(len(out))])
        seen = true.any(axis=(1, 2))
        left = (true & ~q).sum(axis=(1, 2))[seen] / true.sum(axis=(1, 2))[seen]
        empty = stage.render_empty_place(number).astype(float)
        other = np.abs(frames - empty).max(axis=-1) > OTHER
        same = np.abs(frames.astype(int) - out).max(axis=-1) <= SAME
        seen_still = (true & other & same).sum() / true.sum()
        people = len(np.unique(film.owner)) - 1
        rows.append((people, left.mean(), left.max(), seen_still, q.mean(), true.mean()))
        said = f"{stage.labels[number].activity:10} {people} people: "
        said += f"left {100 * left.mean():.2f} %, at most {100 * left.max():.2f} % of a frame; as "
        said += (
            f"they were {100 * seen_still:.2f} %, blurred {study.receipt_counts['frames_blurred']}"
        )
        print(said, flush=True)
    table = 100 * np.array(rows)
    for who, held in (("one person", table[:, 0] < 200), ("two people", table[:, 0] >= 200)):
        some = table[held]
        error = some.std(axis=0) / np.sqrt(max(1, len(some)))
        print(
            f"{who}: {len(some)} films, left {some[:, 1].mean():.2f} +- {error[1]:.2f} %, "
            f"films with a frame above 5 %: {(some[:, 2] > 5).sum()}, worst "
            f"{some[:, 2].max():.1f} %, as they were {some[:, 3].mean():.2f} +- {error[3]:.2f} %, "
            f"at most {some[:, 3].max():.1f} %, q {some[:, 4].mean():.1f} % of the frame, people "
            f"{some[:, 5].mean():.1f} %"
        )


def cut(count: int) -> None:
    """Films of one person, cropped through the middle of where they are: what is left of halves."""
    stage = Stage(preset="small", videos=24, bystanders=0.0, height=360, width=480, frames=16)
    left: dict[str, list[tuple[float, float]]] = {}
    for number in range(count):
        film = stage.make_staged_film(number)
        rows, columns = (int(np.median(each)) for each in np.nonzero(film.owner >= 0)[1:])
        halves = {
            "right half, at the left border": (np.s_[:, :, columns:], Avatar()),
            "left half, at the right border": (np.s_[:, :, :columns], Avatar()),
            "from the hips up": (np.s_[:, :rows], Avatar()),
            "legs alone": (np.s_[:, rows:], Avatar()),
            "legs alone, --remove-moving": (np.s_[:, rows:], Avatar(remove_moving=True)),
        }
        for name, (part, mechanism) in halves.items():
            frames, true = np.ascontiguousarray(film.frames[part]), film.owner[part] >= 0
            noise = Noise(seed=7)
            study = mechanism.first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
            with closing(study):
                for _ in study.stream(iter(frames), frames.shape, noise):
                    pass
                share = (true & ~study.stack_masks("q")).sum() / max(1, true.sum())
                frames_blurred = study.receipt_counts["frames_blurred"] / len(frames)
            left.setdefault(name, []).append((float(share), frames_blurred))
    for name, shares in left.items():
        table = 100 * np.array(shares)
        error = table[:, 0].std(ddof=1) / np.sqrt(count)
        print(
            f"{name:32} {count} films, left {table[:, 0].mean():.1f} +- {error:.1f} %, at most "
            f"{table[:, 0].max():.0f} % of a film, none above 1 % in {(table[:, 0] < 1).sum()}; "
            f"{table[:, 1].mean():.0f} % of frames blurred",
            flush=True,
        )


def recast(stage: Stage, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A film, the same with other looks on everybody, where people are, and the empty place."""
    played = takes.play_take(
        stage.world,
        plan.plan_take(stage.world, stage._recording_numbers[number], kind="videos"),
        kind="videos",
    )
    behind = backdrop.draw_backdrop(played.stage_place, played.camera, played.light)
    model = bodies.load_body_model()
    other = [
        (
            figure.make_person(
                model, one.body, plan.make_subject(500 + number + 40 * at, seed=9).look
            ),
            posed,
        )
        for at, (one, posed) in enumerate(played.list_dressed_people)
    ]
    drawn = [
        figure.draw_people(model, people, behind, camera=played.camera, light=played.light)
        for people in (played.list_dressed_people, other)
    ]
    where = np.logical_or(*(each.owner >= 0 for each in drawn))
    return drawn[0].image, drawn[1].image, where, behind[0]


def emptied(frames: np.ndarray) -> np.ndarray:
    """The film as figures are drawn over it, and what was missed is blurred."""
    noise, found = Noise(seed=7), []
    study = Avatar().first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
    with closing(study):
        for number, (people, empty) in enumerate(study._remove_people(iter(frames))):
            missed = study.scene.watch.find_missed_mask(number)
            found.append(empty if missed is None else blur_region(empty, missed & ~people.q))
    return np.stack(found)


def residue(count: int) -> None:
    """What changes in the emptied film when nothing but people's looks change."""
    stage, rows = films(count), []
    for number in range(count):
        one, other, where, place = recast(stage, number)
        left = [emptied(frames).astype(float) for frames in (one, other)]
        inside = np.stack([grow_mask(mask, 2) for mask in where])
        before = (one.astype(float) - other)[inside].ravel()
        after = (left[0] - left[1])[inside].ravel()
        share = float(before @ after / (before @ before))
        alike = float(np.corrcoef(before, after)[0, 1]) if after.std() > 0 else 0.0
        seen = [np.abs(each.astype(float) - place).max(-1) > 40 for each in (one, other)]
        own, chance = (  # shades of one's own film, and of the other's, for comparison
            np.mean(
                [
                    (np.abs(frames - empty).max(-1) < 10)[where & told].mean()
                    for frames, empty, told in zip((one, other), pair, seen, strict=True)
                ]
            )
            for pair in (left, left[::-1])
        )
        rows.append((share, alike, own, chance))
        said = f"{stage.labels[number].activity:10} share of a change that is left {share:+.3f}, "
        print(
            said + f"correlation {alike:+.3f}, as it was {own:.2%}, by chance {chance:.2%}",
            flush=True,
        )
    table = np.array(rows)
    means, errors = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(count)
    print(
        f"{count} films: share {means[0]:+.4f} +- {errors[0]:.4f}, correlation {means[1]:+.3f} +- "
        f"{errors[1]:.3f}, as it was {means[2]:.2%} +- {errors[2]:.2%}, by chance {means[3]:.2%}"
    )


def steps() -> None:
    """CPU time by step."""
    stage = films(12, height=720, width=1280, frames=30)
    frames = stage.make_staged_film(0).frames
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    noise = Noise()
    study = Avatar().first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
    with closing(study):
        for _ in study.stream(iter(frames), frames.shape, noise):
            pass
    profile.disable()
    found = pstats.Stats(profile).stats
    for name, (file, function) in STEPS.items():
        spent = sum(
            row[3]
            for (path, _, own), row in found.items()
            if path.endswith(file) and own == function
        )
        print(f"{name:24} {1e3 * spent / len(frames):7.1f} ms a frame")
    print(f"{'all':24} {1e3 * pstats.Stats(profile).total_tt / len(frames):7.1f} ms a frame")


def clock(count: int = 150) -> None:
    """`masquerade release` on a film of one who walks, 25 Hz, start, decoding and encoding too."""
    for height, width in ((720, 1280), (480, 854)):
        frames = (
            films(12, height=height, width=width, frames=count, rate_hz=25.0)
            .make_staged_film(0)
            .frames
        )
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "in.mp4")
            with source.open("wb") as stream:
                write.write_video(stream, frames, suffix=".mp4", rate=Fraction(25))
            call = [sys.executable, "-m", "masquerade", "release", str(source)]
            call += [str(Path(folder, "out.mp4")), "--mechanism", "avatar"]
            began, spent = time.perf_counter(), os.times()
            subprocess.run(call, check=True, capture_output=True)
            took, after = time.perf_counter() - began, os.times()
        cpu = sum(after[2:4]) - sum(spent[2:4])
        said = f"{count / took:.1f} frames a second, {1e3 * cpu / count:.0f} ms of processors"
        print(f"{width} x {height}, {count} frames: {said} a frame", flush=True)


def twice(count: int = 150) -> None:
    """In memory, without decoding, encoding and start: frames a second of each reading."""
    for height, width in ((720, 1280), (480, 854)):
        frames = (
            films(12, height=height, width=width, frames=count, rate_hz=25.0)
            .make_staged_film(0)
            .frames
        )
        for is_warm in (False, True):
            noise, shown = Noise(), frames if is_warm else frames[:20]
            began = time.perf_counter()
            study = Avatar().first_pass(iter(shown), shown.shape, rate_hz=25.0, noise=noise)
            with closing(study):
                first = time.perf_counter() - began
                for _ in study.stream(iter(shown), shown.shape, noise):
                    pass
                both = time.perf_counter() - began
        said = f"first reading {count / first:.1f}, second {count / (both - first):.1f}"
        print(f"{width} x {height}: {said}, both {count / both:.1f} frames a second", flush=True)


def sheet(target: str) -> None:
    """Four moments of a film, each before, emptied, with avatars, and the masks."""
    frames = films(60, height=240, width=320).make_staged_film(5).frames
    noise, rows = Noise(), []
    study = Avatar().first_pass(iter(frames), frames.shape, rate_hz=10.0, noise=noise)
    with closing(study):
        empty = [each for _, each in study._remove_people(iter(frames))]
        out = list(study.stream(iter(frames), frames.shape, noise))
        for at in (1, 6, 11):
            drawn = np.full(frames[at].shape, 255, np.uint8)
            for name, colour in MASKS.items():
                drawn[study._made[name][at]] = colour
            rows.append(np.concatenate([frames[at], empty[at], out[at], drawn], axis=1))
    whole = cv2.resize(np.concatenate(rows), None, fx=0.75, fy=0.75, interpolation=cv2.INTER_AREA)
    few = np.minimum(np.rint(whole / 8) * 8, 255).astype(np.uint8)
    cv2.imwrite(target, few[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])


def peak(count: int) -> None:
    """MiB that a process needs at most for a film of so many frames."""
    short = films(12, height=240, width=320, frames=30).make_staged_film(0).frames
    again = np.concatenate([short, short[::-1]])
    frames = (again[number % len(again)] for number in range(2 * count))
    shape = (count, *short.shape[1:])
    noise = Noise()
    first = (next(frames) for _ in range(count))
    study = Avatar().first_pass(first, shape, rate_hz=5.0, noise=noise)
    with closing(study):
        for _ in study.stream(
            (again[number % len(again)] for number in range(count)), shape, noise
        ):
            pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def memory() -> None:
    """Peaks of two processes."""
    for count in (300, 3000):
        done = subprocess.run(
            [sys.executable, __file__, "peak", str(count)],
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"{count} frames of 240 x 320: {done.stdout.strip()} MiB at most", flush=True)


if __name__ == "__main__":
    what, *more = sys.argv[1:] or ["cover"]
    if what != "twice":
        cv2.setNumThreads(1)
    if what == "sheet":
        sheet(*more)
    else:
        counts = {"cover": 24, "cut": 12, "residue": 24}
        given = [int(each) for each in more]
        if not given and what in counts:
            given = [counts[what]]
        works = {
            "cover": cover,
            "cut": cut,
            "residue": residue,
            "twice": twice,
            "steps": steps,
            "clock": clock,
        }
        (works | {"memory": memory, "peak": peak})[what](*given)
