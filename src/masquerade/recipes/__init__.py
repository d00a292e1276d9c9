"""The papers' experiments, and the demo, as functions that put doors and rooms together."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "anonymise": CatalogEntry(
        "recipes.anonymise:Anonymise",
        "Train the network of the mechanism spact or alf on public people, and write its weights.",
    ),
    "audits": CatalogEntry("recipes.audits:Audits", "Play every game and write the docs page."),
    "avatar": CatalogEntry(
        "recipes.avatar:AvatarTable",
        "Learn activities without noise from films and from what avatars leave of them.",
    ),
    "demo": CatalogEntry(
        "recipes.demo:Demo",
        "Run the systems small on people who never lived, attack and audit them, write one page.",
    ),
    "mask_dp": CatalogEntry(
        "recipes.mask_dp:MaskDpTables",
        "Train with and without noise where it is private, and write the tables.",
    ),
    "papers": CatalogEntry(
        "recipes.papers:Papers",
        "Judge the five papers and write the docs page with the arithmetic.",
    ),
    "place_training": CatalogEntry(
        "recipes.place_training:PlaceTraining",
        "Train one of PPEDCRF's networks on public places of Stage, and write its weights.",
    ),
    "pose": CatalogEntry(
        "recipes.pose:PoseTables",
        "Train with and without noise, in a subspace and with public pictures; write the tables.",
    ),
    "ppedcrf": CatalogEntry(
        "recipes.ppedcrf:PpedcrfTables",
        "Release films, look for their places among others, and compare with other ways "
        "to hide them.",
    ),
    "pretrain": CatalogEntry(
        "recipes.pretrain:Pretrain",
        "Train a network without privacy on what only public people do, and write its weights.",
    ),
    "tempdiff": CatalogEntry(
        "recipes.tempdiff:TempdiffTables",
        "Teach ensembles, count their votes under noise, and test the students.",
    ),
    "video_dprp": CatalogEntry(
        "recipes.video_dprp:VideoDprpTables",
        "Release by every mechanism, learn from it, and compare with training with noise.",
    ),
}
