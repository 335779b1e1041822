"""Figures 7.1 and 7.2 of Räisä (2021)."""

from benchmarks.raisa_figures import problem
from benchmarks.raisa_figures.figures import figure_7_1, figure_7_2
from benchmarks.raisa_figures.runs import by_clip, by_epsilon

__all__ = ["by_clip", "by_epsilon", "figure_7_1", "figure_7_2", "problem"]
