"""Networks, and the factory that picks one by name or by the shape of the inputs."""

from adacorr.train.nets.dropout import with_dropout
from adacorr.train.nets.factory import NAMES, Factory, make_factory
from adacorr.train.nets.mlp import MLP
from adacorr.train.nets.pointnet import PointNet
from adacorr.train.nets.preact_resnet import PreActResNet, preact_resnet
from adacorr.train.nets.small_cnn import SmallCNN

__all__ = [
    "MLP",
    "NAMES",
    "Factory",
    "PointNet",
    "PreActResNet",
    "SmallCNN",
    "make_factory",
    "preact_resnet",
    "with_dropout",
]
