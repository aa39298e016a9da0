"""A trained model out of its run directory."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import torch
from safetensors import SafetensorError, safe_open

from adacorr.core.validation import InputError, check_fields
from adacorr.runs.directory import Run
from adacorr.runs.manifest import check
from adacorr.train.batches import Kind, Scaling
from adacorr.train.engine import Model
from adacorr.train.fitting import NetLike, net_factory
from adacorr.train.methods import METHODS
from adacorr.train.methods.base import Method, Setting
from adacorr.train.nets.factory import is_code
from adacorr.train.ranks import Ranks
from adacorr.train.settings import Settings

MAX_SIDE = 1_000_000  # of a sample, in any direction


def load_model(run: Run, net: NetLike = None) -> Model:
    """The model of a finished run, ready to predict.

    `net` is what was passed to ``fit``; only needed when that was a module or a function of the
    caller's: a run directory may come from anywhere, and does not choose which code runs.
    """
    tensors, about = _read_weights(run)
    method = saved_method(run)
    settings = saved_settings(run)
    k = len(run.class_names())
    if net is None or isinstance(net, str):
        net = saved_net(run, net)
    make_net = net_factory(net, _input_shape(run))
    ranks = Ranks(settings.mixed_precision)
    some = torch.arange(k, device=ranks.device)  # what a method prepares per sample is not needed
    method.start(Setting(some, k, settings.epochs or 1, ranks.device))
    method.stage = about.stage
    with torch.random.fork_rng():
        nets = method.build(make_net, k)
    scaling = Scaling(about.kind, about.mean, about.std)
    model = Model([n.to(ranks.device) for n in nets], method, scaling.to(ranks.device), ranks)
    start = len("net.")
    try:
        model.load_weights({k[start:]: v for k, v in tensors.items() if k.startswith("net.")})
    except RuntimeError as error:
        raise InputError(
            f"{run.file('model.safetensors')}: expected weights of the run's net, got {error}"
        ) from error
    return model


def saved_method(run: Run) -> Method:
    """The method with the fields that config.toml recorded."""
    fields = dict(run.table("method"))
    name = fields.pop("name", None)
    where = f"{run.file('config.toml')}: method"
    if not isinstance(name, str) or name not in METHODS:
        raise InputError(f"{where}: expected one of {', '.join(METHODS)}, got {name!r}")
    check_fields(METHODS[name], fields, where)
    return METHODS[name](**fields)


def saved_settings(run: Run) -> Settings:
    """The settings of training that config.toml recorded."""
    train = run.table("train")
    values = {field.name: train.get(field.name) for field in fields(Settings)}
    check_fields(Settings, values, f"{run.file('config.toml')}: train")
    return Settings(**values)  # pyright: ignore[reportArgumentType]


def saved_net(run: Run, named: str | None = None) -> str | None:
    """The name of the net; None means: chosen by the input's shape.

    Code (``package.module:factory``) is only taken when the caller has `named` it too.
    """
    where = f"{run.file('config.toml')}: train"
    net = run.table("train").get("net")
    if not isinstance(net, str):
        raise InputError(f"{where}: expected net, a name, got {net!r}")
    if named not in (None, net):
        raise InputError(f"--net: expected {net or 'none'} as in the run, got {named}")
    if is_code(net) and named is None:
        raise InputError(
            f"{where}: expected a net of adacorr's, got {net!r}, which is code; if you trust it, "
            f"say so: --net {net} (from Python, pass the net itself)"
        )
    return net or None


def _input_shape(run: Run) -> tuple[int, ...]:
    shape = run.table("data").get("input_shape")
    sizes = shape if isinstance(shape, list) else []
    if not 1 <= len(sizes) <= 4 or not all(type(d) is int and 1 <= d <= MAX_SIDE for d in sizes):
        raise InputError(
            f"{run.file('config.toml')}: data: expected input_shape, a list of up to 4 sizes, "
            f"got {shape!r}"
        )
    return tuple(sizes)


@dataclass(frozen=True)
class _About:
    """What the weights come with."""

    stage: int
    kind: Kind
    mean: torch.Tensor
    std: torch.Tensor


def _read_weights(run: Run) -> tuple[dict[str, torch.Tensor], _About]:
    path = run.file("model.safetensors")
    check(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads(file.metadata()["adacorr"])
        mean, std = tensors["scaling.mean"], tensors["scaling.std"]
        found = _About(about["stage"], about["kind"], mean, std)
        check_fields(_About, vars(found), str(path))
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise InputError(f"{path}: expected a trained model, got {error}") from error
    return tensors, found
