"""Models by their id on the hub (`org/name`), fetched and kept by huggingface_hub as mlx-lm does it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from npc.errors import ModelError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
WANTED = ["*.json", "model*.safetensors", "*.jinja"]


def is_hub_id(name: str) -> bool:
    """Whether `name` may be one: it looks so, and its first part is no folder here that it could be missing from."""
    return HUB_ID.fullmatch(name) is not None and not Path(name).exists() and not Path(name).parent.is_dir()


def hub_folder(name: str) -> Path:
    """The folder of a hub id: what is in the hub's cache, whole, else fetched now. Raises ModelError in one line."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        folder = Path(snapshot_download(name, allow_patterns=WANTED, local_files_only=True))
        if is_whole(folder):
            return folder
    except (LocalEntryNotFoundError, OSError):
        pass  # not here yet, so it is asked for
    try:
        folder = Path(snapshot_download(name, allow_patterns=WANTED))
    except RepositoryNotFoundError as error:
        raise ModelError(f"{name}: the hub knows no such model, or not for you (hf auth login)") from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"{name}: not on this machine, and the hub can't be reached; connect, or give a folder with the model"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ModelError(f"{name}: can't be fetched from the hub ({str(error).splitlines()[0]})") from error
    if not is_whole(folder):
        raise ModelError(f"{name}: has no config.json with weights as safetensors on the hub; give another model")
    return folder


def is_whole(folder: Path) -> bool:
    """Whether config and all weight files are there."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        parts = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return all((folder / part).is_file() for part in parts)
    return any(folder.glob("model*.safetensors"))


def cached_ids() -> list[str]:
    """The models in the hub's cache that are whole, whatever they can do."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    whole = (any(is_whole(one.snapshot_path) for one in repo.revisions) for repo in found)
    return sorted(repo.repo_id for repo, good in zip(found, whole, strict=True) if repo.repo_type == "model" and good)
