"""Train a small model privately, check its receipt, and test it on people it never saw.

You will see the promise and an accuracy near chance: twelve films are few. Half a minute.
"""

import tempfile
from pathlib import Path

import masquerade as mq

EPSILON, BATCH, EPOCHS = 8.0, 4, 2.0
WORLD = {"subjects": 6, "places": 4, "videos": 36, "frames": 16, "height": 64, "width": 64}

private = mq.make_collection("stage", split="train", **WORLD)
method = mq.make_method("dp_sgd", epsilon=EPSILON, unit="video", batch=BATCH, epochs=EPOCHS)

with tempfile.TemporaryDirectory() as folder:
    target = Path(folder) / "model.safetensors"
    trained = mq.train_file(private, target, method, mq.make_network("mvit_small"))
    print(mq.explain(mq.check_receipt(target).guarantee)[0])

    found = mq.evaluate_file(target, mq.make_collection("stage", **WORLD))
    print(f"Right on {found.accuracy.top_1:.0%} of {found.recordings} films of other people.")
