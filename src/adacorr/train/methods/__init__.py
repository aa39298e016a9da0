"""Every method by name; a new one is a file here and a line below."""

from adacorr.train.methods.abstention import Abstention
from adacorr.train.methods.adacorr import AdaCorr
from adacorr.train.methods.backward import Backward
from adacorr.train.methods.base import Method
from adacorr.train.methods.coteaching import CoTeaching
from adacorr.train.methods.decoupling import Decoupling
from adacorr.train.methods.dividemix import DivideMix
from adacorr.train.methods.elrplus import ELRPlus
from adacorr.train.methods.forgetting import Forgetting
from adacorr.train.methods.forward import Forward
from adacorr.train.methods.mentornet import MentorNet
from adacorr.train.methods.posterior import Posterior
from adacorr.train.methods.sop import SOP
from adacorr.train.methods.standard import Standard

METHODS: dict[str, type[Method]] = {
    cls.name: cls
    for cls in (
        Standard,
        Forgetting,
        Forward,
        Backward,
        Decoupling,
        MentorNet,
        CoTeaching,
        Abstention,
        ELRPlus,
        SOP,
        DivideMix,
        AdaCorr,
        Posterior,
    )
}

__all__ = [
    "METHODS",
    "SOP",
    "Abstention",
    "AdaCorr",
    "Backward",
    "CoTeaching",
    "Decoupling",
    "DivideMix",
    "ELRPlus",
    "Forgetting",
    "Forward",
    "MentorNet",
    "Method",
    "Posterior",
    "Standard",
]
