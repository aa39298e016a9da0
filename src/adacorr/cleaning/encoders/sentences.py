"""Sentence embeddings of any model that ``transformers`` loads, by name or path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacorr.cleaning.encoders.encoded import Vectors
from adacorr.cleaning.encoders.hub import load_pretrained
from adacorr.cleaning.encoders.text import filled

BATCH = 64  # texts in memory at a time
MAX_TOKENS = 256  # where sentence-transformers cuts texts for all-MiniLM-L6-v2


class SentenceEncoder:
    """Mean of the last layer over the tokens, or the first token where the model's folder says so.

    The pooling is read from ``1_Pooling/config.json``, as sentence-transformers write it.
    """

    fitted = False

    def __init__(self, model: str) -> None:
        self.name, self._model = f"sentences {model}", model
        self._tokens, self._net = load_pretrained(model, "AutoTokenizer", "AutoModel")
        self._first_token = _pools_first_token(model)
        self.dimension = int(self._net.config.hidden_size)

    def __reduce__(self) -> Any:
        """Workers of a cluster load their own, by the same name."""
        return SentenceEncoder, (self._model,)

    def fit(self, content: list[str]) -> None: ...

    def encode(self, content: list[str]) -> Vectors:
        """(B, D) rows of length one, and which texts have anything in them."""
        order = np.argsort([len(text) for text in content])  # a batch is as long as its longest
        out = np.zeros((len(content), self.dimension), np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            out[rows] = self._embed([content[i] for i in rows])
        full = filled(content)
        out[~full] = 0
        return Vectors(out, full)

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        limit = min(MAX_TOKENS, int(getattr(self._tokens, "model_max_length", MAX_TOKENS)))
        given = self._tokens(
            texts, padding=True, truncation=True, max_length=limit, return_tensors="pt"
        )
        with torch.inference_mode():
            states = self._net(**given).last_hidden_state
            if self._first_token:
                pooled = states[:, 0]
            else:
                mask = given["attention_mask"][:, :, None].to(states.dtype)
                pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            return torch.nn.functional.normalize(pooled, dim=1).numpy()


def _pools_first_token(model: str) -> bool:
    config: Any = {}
    path = Path(model) / "1_Pooling" / "config.json"
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
    return bool(config.get("pooling_mode_cls_token", False))
