"""What the five papers print, and what holds: one file a paper, defaults as in the paper."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "feature_projective": CatalogEntry(
        "accounting.published.feature_projective:FeatureProjectiveClaim",
        "Feature-Projective DP: private pose estimation with public features [sivangi2025].",
    ),
    "mask_dp": CatalogEntry(
        "accounting.published.mask_dp:MaskDpClaim",
        "MaskDP: noise on the gradient of the private tokens only [schneider2024].",
    ),
    "ppedcrf": CatalogEntry(
        "accounting.published.ppedcrf:PpedcrfClaim",
        "PPEDCRF: noise on the background regions that give a place away [ma2026].",
    ),
    "tempdiff": CatalogEntry(
        "accounting.published.tempdiff:TempdiffClaim",
        "TEMPDIFF: teacher ensembles for wearable activity recognition [roy2023].",
    ),
    "video_dprp": CatalogEntry(
        "accounting.published.video_dprp:VideoDprpClaim",
        "Video-DPRP: a random projection of a video plus noise [nken2025].",
    ),
}
