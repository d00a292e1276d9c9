"""Nouns to one self-contained page that a person can read. No network, no script.

``page.page(title, sections)`` is the file; a `Section` has words, tables and figures of `page`.
``plots.draw_lines`` draws a `PlotLine` or several, ``plots.draw_bars`` draws `BarSeries`, both with
titles from `PlotAxes`.
"""

from masquerade.report import page, plots
from masquerade.report.page import Section
from masquerade.report.plots import BarSeries, PlotAxes, PlotLine

__all__ = ["BarSeries", "PlotAxes", "PlotLine", "Section", "page", "plots"]
