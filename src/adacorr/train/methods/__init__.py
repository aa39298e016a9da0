"""Every method by name; a new one is a file here and a line below."""

from adacorr.train.methods.base import Method
from adacorr.train.methods.standard import Standard

METHODS: dict[str, type[Method]] = {cls.name: cls for cls in (Standard,)}

__all__ = ["METHODS", "Method", *(cls.__name__ for cls in METHODS.values())]
