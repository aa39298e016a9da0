"""A local page on which people accept or reject a run's proposed changes."""

from adacorr.review.export import export
from adacorr.review.server import open_review, serve

__all__ = ["export", "open_review", "serve"]
