"""A trained model out of its run directory."""

from __future__ import annotations

import json
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from adacorr.core.validation import InputError
from adacorr.runs import Run
from adacorr.train.batches import Scaling
from adacorr.train.engine import Model
from adacorr.train.fitting import NetLike, net_factory
from adacorr.train.methods import METHODS
from adacorr.train.methods.base import Method, Setting
from adacorr.train.ranks import Ranks


def load_model(run: Run, net: NetLike = None) -> Model:
    """The model of a finished run, ready to predict.

    `net` is what was passed to ``fit``; only needed when that was a module or a local function,
    which config.toml cannot name.
    """
    config = run.config()
    tensors, about = _read_weights(run)
    method = saved_method(config)
    k = len(run.class_names())
    make_net = net_factory(
        net or config["train"]["net"] or None, tuple(config["data"]["input_shape"])
    )
    ranks = Ranks(config["train"]["mixed_precision"])
    some = torch.arange(k, device=ranks.device)  # what a method prepares per sample is not needed
    method.start(Setting(some, k, config["train"]["epochs"], ranks.device))
    method.stage = about["stage"]
    with torch.random.fork_rng():
        nets = method.build(make_net, k)
    scaling = Scaling(about["kind"], tensors["scaling.mean"], tensors["scaling.std"])
    model = Model([n.to(ranks.device) for n in nets], method, scaling.to(ranks.device), ranks)
    start = len("net.")
    try:
        model.load_weights({k[start:]: v for k, v in tensors.items() if k.startswith("net.")})
    except RuntimeError as error:
        raise InputError(
            f"{run.file('model.safetensors')}: expected weights of the run's net, got {error}"
        ) from error
    return model


def saved_method(config: dict[str, Any]) -> Method:
    """The method with the fields that config.toml recorded."""
    fields = dict(config["method"])
    name = fields.pop("name")
    if name not in METHODS:
        raise InputError(f"method: expected one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name](**fields)


def _read_weights(run: Run) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    path = run.file("model.safetensors")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, json.loads(file.metadata()["adacorr"])
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected a trained model, got {error}") from error
