"""Stage, our embedded world, in the docs: its pictures, how hard it is, and a gallery of it."""

from masquerade.catalog import CatalogEntry

ENTRIES = {
    "figures": CatalogEntry(
        "recipes.stage.figures:Figures", "Measure how hard Stage is, one figure or all of them."
    ),
    "gallery": CatalogEntry(
        "recipes.stage.gallery:Gallery",
        "Release a generated person by every mechanism; write before and after, and the docs page.",
    ),
    "world": CatalogEntry(
        "recipes.stage.world:World", "Write the pictures of Stage that stand in the docs."
    ),
}
