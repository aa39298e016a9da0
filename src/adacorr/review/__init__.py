"""A local page on which people accept or reject a run's proposed changes."""

from adacorr.review.export import export
from adacorr.review.server import answers_of, open_review, serve

__all__ = ["answers_of", "export", "open_review", "serve"]
