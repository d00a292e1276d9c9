"""Release a wearable signal and read its receipt. You will see six sentences; it takes a second."""

import numpy as np

import masquerade as mq

RATE_HZ = 20.0
RANGE_M_S2 = 20.0  # public: what the sensor can read, not what it did read

rng = np.random.default_rng(1)
time = np.arange(600) / RATE_HZ
walk = np.stack([3 * np.sin(2 * np.pi * 1.8 * time + phase) for phase in (0, 1, 2)], axis=1)
values = (walk + rng.normal(0, 0.3, walk.shape)).astype(np.float32)  # (T, C)
signal = mq.Signal(values=values, rate_hz=RATE_HZ, subject="nobody")

mechanism = mq.make_mechanism(
    "gaussian_noise",
    epsilon=8,
    delta=1e-5,
    unit="frame",  # one sample of all three axes; not the person who wore it
    low=-RANGE_M_S2,
    high=RANGE_M_S2,
)
released = mq.release_value(signal, mechanism)

for sentence in mq.explain(released.receipt.guarantee):
    print(sentence)
print(f"Noise on each number: {mechanism.plan(values.shape).expected_error:.1f} m/s^2.")
