"""Mechanisms: what a recording is published by."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "alf": CatalogEntry(
        "mechanisms.learned_filter:Alf",
        "ALF: a network redraws every frame so that looks are hard to tell.",
        has_proof=False,
    ),
    "appearance_free": CatalogEntry(
        "mechanisms.selective_privacy:AppearanceFree",
        "Appearance-free video: noise that moves as the picture moves.",
        has_proof=False,
    ),
    "avatar": CatalogEntry(
        "avatars.avatar:Avatar",
        "Replace people by avatars who do the same, and say which pixels are drawn.",
        has_proof=False,
    ),
    "blur": CatalogEntry(
        "mechanisms.filters:Blur",
        "Gaussian blur of frames, whole or inside given masks.",
        has_proof=False,
    ),
    "cosine_gaussian": CatalogEntry(
        "mechanisms.cosine_gaussian:CosineGaussian",
        "Cosine coefficients with noise that is shaped to how pictures look: the form we "
        "recommend.",
        dict(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4),
    ),
    "face_blur": CatalogEntry(
        "mechanisms.face_blur:FaceBlur",
        "Blur, blacken or pixelate the faces that a detector finds.",
        has_proof=False,
    ),
    "gaussian_noise": CatalogEntry(
        "mechanisms.gaussian_noise:GaussianNoise",
        "Gaussian noise on every number of an array, a signal or a video.",
        dict(epsilon=8.0, delta=1e-4, unit="value", low=0.0, high=1.0),
    ),
    "learned_filter": CatalogEntry(
        "mechanisms.learned_filter:LearnedFilter",
        "Any network of yours that redraws pictures, as a mechanism.",
        dict(network="soften"),
        has_proof=False,
    ),
    "low_resolution": CatalogEntry(
        "mechanisms.filters:LowResolution",
        "Extremely low resolution, with the random movement of inverse super resolution.",
        has_proof=False,
    ),
    "mosaic": CatalogEntry(
        "mechanisms.filters:Mosaic",
        "Mosaic: blocks of pixels replaced by their mean.",
        has_proof=False,
    ),
    "pooled_gaussian": CatalogEntry(
        "mechanisms.pooled_gaussian:PooledGaussian",
        "Block means with Gaussian noise: the simple sound release of a video.",
        dict(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4, block=2, length=2),
    ),
    "ppedcrf": CatalogEntry(
        "places.ppedcrf:Ppedcrf",
        "PPEDCRF: noise where a film shows its place, and people as they are [ma2026].",
        dict(people="nobody"),
        has_proof=False,
    ),
    "public_mask_gaussian": CatalogEntry(
        "mechanisms.public_mask_gaussian:PublicMaskGaussian",
        "Gaussian noise inside a public mask: what can be proved of noise that is put in "
        "some places.",
        dict(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4),
    ),
    "random_mask": CatalogEntry(
        "mechanisms.filters:RandomMask",
        "Random mask: a random share of each frame replaced by mid-grey, or with noise on it.",
        has_proof=False,
    ),
    "selective_privacy": CatalogEntry(
        "mechanisms.selective_privacy:SelectivePrivacy",
        "Selective privacy: noise that moves along where people can be told, and clean elsewhere.",
        has_proof=False,
    ),
    "spact": CatalogEntry(
        "mechanisms.learned_filter:Spact",
        "SPAct: a network redraws every frame so that frames of one video are hard to match.",
        has_proof=False,
    ),
    "video_dprp": CatalogEntry(
        "mechanisms.video_dprp:VideoDprp",
        "Video-DPRP: a random projection of every frame with Gaussian noise [nken2025].",
        dict(epsilon=8.0, delta=1e-4, unit="pixels", pixels=4, columns=16),
    ),
}
