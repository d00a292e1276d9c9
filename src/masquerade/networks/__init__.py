"""Networks: small ones of our own, and published ones rebuilt so that their weights can be read."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "lstm": CatalogEntry(
        "networks.lstm:LstmNetwork",
        "An LSTM over windows of a worn sensor, and every record's own gradient at "
        "little extra cost.",
        dict(window=16, hidden=4),
    ),
    "mvit_small": CatalogEntry(
        "networks.network:MvitSmall",
        "Version 2 in six blocks for 64 x 64 pixels: learns on two cores.",
    ),
    "mvit_v1_b": CatalogEntry(
        "networks.network:MvitV1B",
        "MViT-B [fan2021], for 224 x 224 pixels.",
        dict(from_scratch=True),
    ),
    "mvit_v2_s": CatalogEntry(
        "networks.network:MvitV2S",
        "MViTv2-S [li2022], for 224 x 224 pixels.",
        dict(from_scratch=True),
    ),
    "tiny_vit_11m": CatalogEntry(
        "networks.network:TinyVit11M",
        "TinyViT of 11 million weights, as published, with a head for joints.",
        dict(from_scratch=True),
    ),
    "tiny_vit_21m": CatalogEntry(
        "networks.network:TinyVit21M",
        "TinyViT of 21 million weights, as published, with a head for joints.",
        dict(from_scratch=True),
    ),
    "tiny_vit_5m": CatalogEntry(
        "networks.network:TinyVit5M",
        "TinyViT of 5 million weights, as published, with a head for joints.",
        dict(from_scratch=True),
    ),
    "tiny_vit_small": CatalogEntry(
        "networks.network:TinyVitSmall",
        "TinyViT in five blocks, with a head for joints: learns on two cores.",
    ),
}
