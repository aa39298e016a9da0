"""Noise matrices and noisy labels: ``from adacorr.noise import uniform, inject``."""

from adacorr.core.noise import class_map, inject, instance_dependent, pair, parse, uniform

__all__ = ["class_map", "inject", "instance_dependent", "pair", "parse", "uniform"]
