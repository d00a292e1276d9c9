"""Nouns to one self-contained page that a person can read. No network, no script.

``page.page(title, sections)`` is the file; a `Section` has words, tables and figures of `page`.
``plot.svg`` draws a `Line` or several, ``bars.svg`` draws `Bars`, both with titles from `Axes`.
"""

from masquerade.report import bars, page
from masquerade.report import plots as plot
from masquerade.report.bars import Bars
from masquerade.report.page import Section
from masquerade.report.plots import Axes, Line

__all__ = ["Axes", "Bars", "Line", "Section", "bars", "page", "plot"]
