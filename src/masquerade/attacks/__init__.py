"""Try to break what was published: one attack a file, each between a ceiling and a floor."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "attribute_inference": CatalogEntry(
        "attacks.attribute_inference:AttributeInference",
        "Tell what people look like: gender, skin tone, face, build, clothing, and what "
        "else is labelled.",
    ),
    "membership": CatalogEntry(
        "attacks.membership:Membership",
        "Was this recording, or this person, learned from? Loss, LiRA and RMIA against a model.",
    ),
    "place_retrieval": CatalogEntry(
        "attacks.place_retrieval:PlaceRetrieval",
        "Recognise where a recording was made, by pictures of places that the attacker holds.",
    ),
    "reconstruct": CatalogEntry(
        "attacks.reconstruct:Reconstruct",
        "Get the picture back: average over time, filter by spectrum, or learn it on public films.",
    ),
    "reidentify": CatalogEntry(
        "attacks.reidentify:Reidentify",
        "Who is it? Recognise the people in what was published by face, body, gait, "
        "outline or sensors.",
    ),
    "seed_subtraction": CatalogEntry(
        "attacks.seed_subtraction:SeedSubtraction",
        "Undo a rehearsal: whoever knows the seed draws the same noise and takes it away.",
    ),
}
