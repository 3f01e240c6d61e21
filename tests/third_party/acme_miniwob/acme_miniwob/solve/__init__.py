"""Scripted solutions and wrong endings by page, each a function of the hand that plays it."""

from acme_miniwob.solve import choosing, forms, pages, places, shapes
from acme_miniwob.solve.missing import MISSES
from acme_miniwob.solve.registry import DRAGS, SOLVERS

__all__ = ["DRAGS", "MISSES", "SOLVERS", "choosing", "forms", "pages", "places", "shapes"]
