"""Video-DPRP's settings by name: the paper's own, and one for Stage."""

from __future__ import annotations

from masquerade.recipes.preset import Preset

_GRID = {
    "epsilons": (2.0, 5.0, 8.0),
    "delta": 1e-4,
    "ks": (20 * 20 * 3, 24 * 32 * 3, 32 * 32 * 3, 50 * 50 * 3, 64 * 80 * 3),  # [nken2025, Tab. 3]
    "bs": (0.2, 0.4, 0.5, 0.6, 0.8),  # [nken2025, Tab. 4]
    "seeds": 3,
}

# Chosen on world 2000, never the tested one (benchmarks/choose_video_dprp.py). Without noise 240,
# 480, 720, 1,008 and 2,016 recordings give 81, 86, 89, 90 and 92 per cent right: with 720 there is
# enough to learn beyond public weights. In batches of 128 a rate of .05 is the best of .02 to .2
# for DP-SGD (78.9, the mean over epsilon 2 and 8) and for MultiClip (80.1); batches of 360 and .1
# give 76.5 and 81.9, less for both together. Without noise .5, 1 and 2 are not told apart.
STAGE = Preset(
    values={
        **_GRID,
        "network": "mvit_small",
        "part": "head",
        "epochs": 40.0,
        "batch": 128,
        "learning_rate": 0.05,
        "clean_learning_rate": 0.5,
        "momentum": 0.9,
        "warmup": 0.1,
        "schedule": "cosine",
        "clip_norm": 1.0,
        "crop": "middle",
        "stride": 1,
        "most": 720,
    }
)

PAPER = Preset(
    values={
        **_GRID,
        "network": "mvit_v1_b",
        "part": "head",
        "epochs": 50.0,
        "batch": 8,
        "learning_rate": 0.01,
        "clean_learning_rate": 0.01,
        "momentum": 0.0,
        "warmup": 0.0,
        "schedule": "constant",
        "clip_norm": 0.4,
        "crop": "random",
        "stride": 4,
    },
    left_open=(
        "Which weights learn is not said: here the head's.",
        "Neither momentum nor a schedule is printed: here there is none.",
        "Whether a recording is cropped once or in every epoch is not said: here once in every "
        "run, to 16 of 64 frames, and only where no noise is in the training; a test sees the "
        "middle.",
        "The relation of DP-SGD's epsilon is not said: here it is met under replace_one, like that "
        "of releases, and what that is under zero_out stands beside it.",
        "Line 10 of Algorithm 1 has matrices that do not conform: here P V (R V)^+.",
        "How far ISR shifts, scales and rotates is not said: the ranges are ours.",
        "The length of a timed video is not said: here 186 frames, about UCF101's mean.",
    ),
)

PRESETS = {"stage": STAGE, "paper": PAPER}
