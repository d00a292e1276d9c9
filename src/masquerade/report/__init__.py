"""Nouns to one self-contained page that a person can read. No network, no script.

``page.page(title, sections)`` is the file; a `Section` has words, tables and figures of `page`.
``plots.draw_lines`` draws a `Line` or several, ``plots.draw_bars`` draws `Bars`, both with titles
from `Axes`.
"""

from masquerade.report import page, plots
from masquerade.report.page import Section
from masquerade.report.plots import Axes, Bars, Line

__all__ = ["Axes", "Bars", "Line", "Section", "page", "plots"]
