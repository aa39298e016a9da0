"""Models by name or path; nothing is fetched unless the user named a model of a hub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from adacorr.core.validation import InputError, one_line


def load_pretrained(model: str, reader: str, net: str) -> tuple[Any, Any]:
    """What prepares the input, and the net, from a folder or (only if it is none) from the hub.

    Code that comes with a model is never run, and weights are read from safetensors alone.
    """
    import transformers

    folder = Path(model).expanduser().is_dir()
    where = str(Path(model).expanduser()) if folder else model
    local = folder or os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    options = {"local_files_only": local, "trust_remote_code": False}
    try:
        prepare = getattr(transformers, reader).from_pretrained(where, **options)
        loaded = getattr(transformers, net).from_pretrained(where, use_safetensors=True, **options)
    except Exception as error:  # the library raises anything from OSError to KeyError
        reason = one_line(error)
        raise InputError(
            f"encoder: expected a folder or the name of a model with safetensors, "
            f"got {model!r}: {reason}"
        ) from error
    return prepare, loaded.eval()


def fetches(model: str) -> bool:
    """Whether loading this model may go to the hub."""
    named = "/" in model and not Path(model).expanduser().is_dir()
    return named and os.environ.get("HF_HUB_OFFLINE", "") in ("", "0")
