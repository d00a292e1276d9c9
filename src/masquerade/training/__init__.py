"""Learn models privately: the parts of one equation, and one short file a method.

Every update is g = lambda * mean of public gradients
                  + (1/b) * Proj[sum of clipped private gradients + N(0, (z C)^2)],

with b the expected size of a private batch, a public number. A method chooses what is private in a
record, what is public, and how records are drawn. Teachers that vote, and a student that
learns from their noisy labels, learn without gradients of private records.
"""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "dp_sgd": CatalogEntry(
        "training.methods:DpSgd",
        "DP-SGD: every unit's gradient is clipped, and the sum of a secret batch gets noise.",
        dict(epsilon=8.0, unit="video"),
    ),
    "feature_dp": CatalogEntry(
        "training.methods:FeatureDp",
        "Feature DP: noise for the picture itself; its coarse public picture teaches without any.",
        dict(epsilon=8.0, unit="video"),
    ),
    "feature_projective": CatalogEntry(
        "training.methods:FeatureProjective",
        "Feature-projective DP: public pictures teach, and the noisy part stays in a "
        "public subspace.",
        dict(epsilon=8.0, unit="video"),
    ),
    "mask_dp": CatalogEntry(
        "training.methods:MaskDp",
        "MaskDP: noise only for what is private in a video; the rest teaches without any.",
        dict(epsilon=8.0, unit="video"),
    ),
    "multi_clip": CatalogEntry(
        "training.methods:MultiClip",
        "MultiClip: gradients of several stretches of a video are averaged before they "
        "are clipped.",
        dict(epsilon=8.0, unit="video"),
    ),
    "pate": CatalogEntry(
        "training.methods:Pate",
        "PATE: teachers of one window length vote, with noise, on what people do.",
        dict(epsilon=2.0, unit="subject"),
    ),
    "projected": CatalogEntry(
        "training.methods:Projected",
        "Projected DP-SGD: the noisy sum moves weights only as public records would.",
        dict(epsilon=8.0, unit="video"),
    ),
    "public_features": CatalogEntry(
        "training.methods:PublicFeatures",
        "Public pictures alone: the lambda term of feature_dp, no private pixel read; to "
        "compare with.",
        dict(epsilon=8.0, unit="video"),
    ),
    "public_part": CatalogEntry(
        "training.methods:PublicPart",
        "The public part alone: the lambda term of MaskDP, no private pixel read; to compare with.",
        dict(epsilon=8.0, unit="video"),
    ),
    "tempdiff": CatalogEntry(
        "training.methods:Tempdiff",
        "TEMPDIFF: teachers of several window lengths vote, with noise, on what people do.",
        dict(epsilon=2.0, unit="subject"),
    ),
}
