"""Make a person who never lived, release the film, and measure what is left. Half a minute."""

import numpy as np

import masquerade as mq

EPSILON, DELTA, SITES = 8.0, 1e-4, 16

stage = mq.make_collection("stage", kind="videos", frames=32, height=96, width=128, rate_hz=25)
film = stage[0]
print(f"{film.subject} does '{film.activity}' in {film.place}, seen from {film.view}.")
share, count = film.person_mask.mean(), film.joints.shape[1]
print(f"The mask covers {share:.1%} of the film; {count} joints are known.")

mechanism = mq.make_mechanism(
    "cosine_gaussian", epsilon=EPSILON, delta=DELTA, unit="pixels", pixels=SITES
)
released = mq.release_value(film.frames, mechanism)
print(mq.explain(released.receipt.guarantee)[0])

error = np.abs(released.value.astype(float) - film.frames)
inside, outside = error[film.person_mask].mean(), error[~film.person_mask].mean()
print(f"Mean error: {inside:.1f} levels on the person, {outside:.1f} elsewhere.")

signal = mq.make_collection("stage", kind="signals")[0]
print(
    f"{signal.subject} also wore sensors: {len(signal.values)} samples, {signal.channels[0]}, ..."
)
