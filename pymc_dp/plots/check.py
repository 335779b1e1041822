"""A check of a model, drawn: a noisy histogram against what it would be if the model were right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pymc_dp.bounds import check_share
from pymc_dp.evaluation.check import Check
from pymc_dp.plots.drawing import add, begin, label

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


def plot_check(
    check: Check,
    *,
    band_prob: float = 0.95,
    backend: str | None = None,
    **pc_kwargs: object,
) -> PlotCollection:
    """Plot the counts of a check, with a band in which all of them lie if the model is right.

    Parameters
    ----------
    check : Check
        From `pymc_dp.check`.
    band_prob : float
        Probability of the band, for all cells together (Bonferroni), in (0, 1).
    backend, **pc_kwargs
        As in `plot_privacy_profile`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        `band_prob` is not in (0, 1).

    Notes
    -----
    **Privacy.** Drawn from what the check released.
    """
    check_share("band_prob", band_prob)
    name, cells = check.variable, check.counts.size
    x, y = np.repeat(check.edges, 2)[1:-1], np.repeat(check.counts, 2)
    line = xr.Dataset({name: (("plot_axis", "point"), [x, y])}, coords={"plot_axis": ["x", "y"]})
    picture = begin(line, backend, **{"cols": [], **pc_kwargs})
    half = float(-ndtri((1 - band_prob) / (2 * cells))) * check.std
    ends = [check.expected - half, check.expected + half]
    band = xr.Dataset({name: (("ref_dim",), ends)}, coords={"ref_dim": [0, 1]})
    add(picture, "hspan", "band", data=band, color="gray", alpha=0.2)
    middle = xr.Dataset({name: check.expected})
    add(picture, "hline", "expected", data=middle, color="gray", linestyle="C1")
    add(picture, "line_xy", "counts", data=line)
    title = f"{name}: p = {check.p_value:.2g}; noise of a count {check.noise:.3g}"
    where = "place in the predictive distribution"
    label(picture, title=title, xlabel=where, ylabel="records")
    return picture
