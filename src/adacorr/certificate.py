"""How far a correction can be trusted: audits, limits, certified radii, calibration."""

from adacorr.core.certificate import (
    CertifiedRadius,
    DeltaChoice,
    NegativeMass,
    Reliability,
    certified_radius,
    choose_delta,
    flip_error_limit,
    flip_sensitivity,
    invert_transition,
    negative_mass,
    reliability,
    reviews_needed,
)

__all__ = [
    "CertifiedRadius",
    "DeltaChoice",
    "NegativeMass",
    "Reliability",
    "certified_radius",
    "choose_delta",
    "flip_error_limit",
    "flip_sensitivity",
    "invert_transition",
    "negative_mass",
    "reliability",
    "reviews_needed",
]
