# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Downloaded checkpoints and their cache."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import tempfile
import urllib.parse
import urllib.request
from typing import Any

_HASH = re.compile(r"-([a-f0-9]*)\.")
_CHUNK = 128 * 1024

_hub_dir: str | None = None


def get_dir() -> str:
    """The cache folder: the one set, else below `TORCH_HOME`, `XDG_CACHE_HOME` or the user's cache."""
    if _hub_dir is not None:
        return _hub_dir
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads below `d`."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch `url` into the file `dst`. RuntimeError if the SHA-256 of what came does not begin with `hash_prefix`."""
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    digest, dst = hashlib.sha256(), os.path.expanduser(dst)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(dst)), suffix=".partial")
    try:
        with open(handle, "wb") as file, urllib.request.urlopen(request) as response:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
        found = digest.hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load a checkpoint from `url`, or from the cache if it has been fetched before.

    As upstream, `weights_only` is False unless asked for: a file from an address that you do not trust needs True.
    """
    from readtorch.serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    try:
        os.makedirs(folder)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    filename = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    cached = os.path.join(folder, filename)
    if not os.path.exists(cached):
        sys.stdout.write(f'Downloading: "{url}" to {cached}\n')
        found = _HASH.search(filename) if check_hash else None
        download_url_to_file(url, cached, found.group(1) if found else None, progress=progress)
    return load(cached, map_location=map_location, weights_only=weights_only)
