"""From a name and the shape of the inputs to a factory of nets."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from adacorr.core.validation import InputError

Factory = Callable[[int], nn.Module]
"""``factory(k)`` gives a fresh net with k outputs."""

NAMES = (
    "cnn",
    "mlp",
    "pointnet",
    "resnet8",
    "preact18",
    "preact34",
    "preact50",
    "preact:depth=8,width=16",
    "resnet50-pretrained",
    "package.module:factory",
)


def make_factory(spec: str | None, input_shape: tuple[int, ...]) -> Factory:
    """The factory that `spec` names, for samples of `input_shape`.

    Parameters
    ----------
    spec : one of `NAMES`; options follow a colon, as in ``cnn:filters=16,hidden=64``,
        ``mlp:hidden=256`` (two layers of it), ``pointnet:feature_transform=1`` or
        ``resnet50-pretrained:weights=FOLDER``; or ``package.module:factory``, a callable that
        takes the number of outputs. None picks by the shape: `mlp` for tables, `pointnet` for
        clouds, `cnn` for images up to 28 pixels or of one channel, `resnet8` for colour images.
    input_shape : of one sample as the dataset stores it: (D,), (P, 3) or (H, W, C).

    Examples
    --------
    >>> net = make_factory(None, (28, 28, 1))(10)
    >>> type(net).__name__
    'SmallCNN'
    """
    name, _, rest = (spec or _pick(input_shape)).partition(":")
    if is_code(spec):
        return _imported(name, rest)
    options = _options(rest, name)
    builders: dict[str, Callable[[tuple[int, ...], dict[str, str]], Factory]] = {
        "cnn": _cnn,
        "mlp": _mlp,
        "pointnet": _pointnet,
        "resnet50-pretrained": _pretrained,
        "preact": _preact,
        "resnet8": lambda s, o: _preact(s, {"depth": "8", **o}),
        "preact18": lambda s, o: _preact(s, {"depth": "18", **o}),
        "preact34": lambda s, o: _preact(s, {"depth": "34", **o}),
        "preact50": lambda s, o: _preact(s, {"depth": "50", **o}),
    }
    if name not in builders:
        raise InputError(f"net: expected one of {', '.join(NAMES)}, got {spec!r}")
    factory = builders[name](tuple(input_shape), options)
    if options:
        raise InputError(f"net: expected no option {', '.join(options)} for {name}, got {spec!r}")
    return factory


def is_code(spec: str | None) -> bool:
    """Whether `spec` names a module of Python, which runs when it is imported.

    >>> is_code("package.module:factory"), is_code("preact:depth=8"), is_code(None)
    (True, False, False)
    """
    return "." in (spec or "").partition(":")[0]


def _pick(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return "mlp"
    if len(shape) == 2:
        return "pointnet"
    return "cnn" if shape[2] == 1 or max(shape[:2]) <= 28 else "resnet8"


def _options(rest: str, name: str) -> dict[str, str]:
    options = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise InputError(f"net: expected options like {name}:width=16, got {part!r}")
        options[key] = value
    return options


def _integer(options: dict[str, str], key: str, default: int) -> int:
    """Take a positive integer out of `options`."""
    raw = options.pop(key, str(default))
    if not raw.isdecimal() or int(raw) < 1:
        raise InputError(f"net: expected a positive integer for {key}, got {raw!r}")
    return int(raw)


def _images(shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(f"net: expected images (H, W, C) for {name}, got samples of {shape}")
    return shape[0], shape[1], shape[2]


def _cnn(shape: tuple[int, ...], options: dict[str, str]) -> Factory:
    from adacorr.train.nets.small_cnn import SmallCNN

    height, width, channels = _images(shape, "cnn")
    filters, hidden = _integer(options, "filters", 32), _integer(options, "hidden", 128)
    return lambda k: SmallCNN(k, channels, height, width, filters, hidden)


def _mlp(shape: tuple[int, ...], options: dict[str, str]) -> Factory:
    from adacorr.train.nets.mlp import MLP

    hidden, inputs = _integer(options, "hidden", 128), 1
    for size in shape:
        inputs *= size
    return lambda k: MLP(k, inputs, (hidden, hidden))


def _pointnet(shape: tuple[int, ...], options: dict[str, str]) -> Factory:
    from adacorr.train.nets.pointnet import PointNet

    if len(shape) != 2 or shape[1] != 3:
        raise InputError(f"net: expected point clouds (P, 3) for pointnet, got samples of {shape}")
    raw = options.pop("feature_transform", "0")
    if raw not in ("0", "1"):
        raise InputError(f"net: expected feature_transform=0 or 1, got {raw!r}")
    return lambda k: PointNet(k, feature_transform=raw == "1")


def _preact(shape: tuple[int, ...], options: dict[str, str]) -> Factory:
    from adacorr.train.nets.preact_resnet import check_depth, preact_resnet

    _, _, channels = _images(shape, "preact")
    depth = check_depth(_integer(options, "depth", 34))
    width = _integer(options, "width", 0) if "width" in options else None
    return lambda k: preact_resnet(k, depth, width, channels)


def _pretrained(shape: tuple[int, ...], options: dict[str, str]) -> Factory:
    from adacorr.train.nets.pretrained import DEFAULT, pretrained_resnet

    _images(shape, "resnet50-pretrained")
    weights = options.pop("weights", DEFAULT)
    return lambda k: pretrained_resnet(k, weights)


def _imported(module: str, name: str) -> Factory:
    """The user's own ``package.module:factory``."""
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"net: expected an importable module {module}, got {error}") from error
    factory = getattr(found, name, None)
    if not callable(factory):
        raise InputError(f"net: expected a callable {name or 'factory'} in {module}, got none")

    def checked(k: int) -> nn.Module:
        net = factory(k)
        if not isinstance(net, nn.Module):
            raise InputError(
                f"net: expected a torch module from {module}:{name}, got {type(net).__name__}"
            )
        return net

    return checked
