"""Plots of a guarantee, of how a run spends it, of a check, and of expected accuracy; by ArviZ's conventions.

ArviZ and Matplotlib are imported only when something is drawn: importing them takes as long as importing the
rest of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import ndtri

from pymc_dp.bounds import check_choice, check_share
from pymc_dp.evaluation.check import Check
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.report import PrivacyReport, privacy_report

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

__all__ = ["plot_accuracy", "plot_check", "plot_privacy_profile", "plot_privacy_spend"]


def plot_privacy_profile(
    obj: object, deltas: ArrayLike | None = None, *, backend: str | None = None, **pc_kwargs: object
) -> PlotCollection:
    """Plot delta (on a logarithmic axis) against epsilon: the whole guarantee, one line for each object.

    Parameters
    ----------
    obj : object, or mapping of str to object
        An object with a guarantee: from `pymc_dp.privacy.compose`, a plan, a report, a ledger (its spent
        budget), or a result of private sampling. The keys of a mapping are the names in the legend.
    deltas : array_like, shape (m,), optional
        In (0, 1). Default: 41 values from 1e-2 to 1e-12.
    backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
        Default: ``rcParams["plot.backend"]``.

    **pc_kwargs
        Passed to :meth:`arviz_plots.PlotCollection.wrap`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    TypeError
        An object has no guarantee.
    ValueError
        `deltas` is not in (0, 1), there is nothing to plot, or no epsilon is finite.

    Notes
    -----
    **Privacy.** Drawn from the public facts of a run; reads no data and no draws.
    """
    objects = dict(obj) if isinstance(obj, Mapping) and not isinstance(obj, xr.DataTree) else {"": obj}
    given = np.geomspace(1e-2, 1e-12, 41) if deltas is None else np.asarray(deltas, dtype=float)
    at = np.sort(np.atleast_1d(given))[::-1]
    if not objects or at.ndim != 1 or at.size == 0 or not np.all((at > 0) & (at < 1)):
        raise ValueError("there must be something to plot, and deltas must lie strictly between 0 and 1.")
    epsilons = np.array([[_epsilon_of(one)(float(delta)) for delta in at] for one in objects.values()])
    if not np.isfinite(epsilons).any():
        raise ValueError("no epsilon is finite: there is no guarantee to plot.")
    epsilons[~np.isfinite(epsilons)] = np.nan
    log_deltas = np.broadcast_to(np.log10(at), epsilons.shape)
    profile = xr.Dataset(
        {"profile": (("plot_axis", "guarantee", "point"), [epsilons, log_deltas])},
        coords={"plot_axis": ["x", "y"], "guarantee": list(objects)},
    )
    defaults = {"aes": {"color": ["guarantee"]}, "cols": []}
    picture = begin(profile, backend, **{**defaults, **pc_kwargs})
    add(picture, "line_xy", "profile", data=profile)
    label(picture, xlabel="ε", ylabel="log₁₀ δ")
    if len(objects) > 1:
        picture.add_legend("guarantee", title="")
    return picture


def plot_privacy_spend(
    idata: xr.DataTree, *, backend: str | None = None, **pc_kwargs: object
) -> PlotCollection:
    """Plot epsilon, at the run's delta, against iteration, with the target as a line.

    Parameters
    ----------
    idata : xarray.DataTree
        From `pymc.sample` with a private step, `pymc_dp.sample` or `pymc_dp.release`. Tuning iterations are
        shown whether or not they were kept, because they are paid for.
    backend, **pc_kwargs
        As in `plot_privacy_profile`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    PrivacyError
        The result has no record of its privacy.
    ValueError
        The run has no finite epsilon.

    Notes
    -----
    **Privacy.** Drawn from the plan of the run. There is one line, because the plan covers all chains at each
    iteration.
    """
    plan = privacy_report(idata).plan
    if not plan.is_private:
        raise ValueError("no epsilon is finite: there is nothing to plot.")
    spent = plan.running_epsilon()
    iterations = np.arange(1, spent.size + 1)
    line = xr.Dataset(
        {"spent": (("plot_axis", "iteration"), [iterations, spent])}, coords={"plot_axis": ["x", "y"]}
    )
    picture = begin(line, backend, **{"cols": [], **pc_kwargs})
    add(picture, "line_xy", "spent", data=line)
    target = xr.Dataset({"spent": plan.epsilon})
    add(picture, "hline", "target", data=target, color="C1", linestyle="C1")
    title = f"target ε = {plan.epsilon:g} (dashed)"
    if plan.tune > 0:
        border = xr.Dataset({"spent": plan.tune + 0.5})
        add(picture, "vline", "tuning", data=border, color="gray", linestyle="C2")
        title += ", end of tuning (dotted)"
    label(picture, title=title, xlabel="iteration", ylabel=f"ε spent at δ = {plan.delta:g}")
    return picture


def _epsilon_of(obj: object) -> Callable[[float], float]:
    if isinstance(obj, xr.DataTree):
        obj = privacy_report(obj)
    if isinstance(obj, PrivacyReport):
        obj = obj.plan
    if isinstance(obj, Ledger):
        obj = obj.spent()
    for name in ("epsilon_at", "epsilon"):
        if callable(getattr(obj, name, None)):
            return getattr(obj, name)
    raise TypeError(f"{type(obj).__name__} has no guarantee to plot.")


def plot_check(
    check: Check, *, band_prob: float = 0.95, backend: str | None = None, **pc_kwargs: object
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
    **Privacy.** Drawn from the released numbers of the check.
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


def plot_accuracy(
    expected: pd.DataFrame,
    *,
    quantity: str = "wider",
    backend: str | None = None,
    aes: Mapping[str, Sequence[str]] | None = None,
    **pc_kwargs: object,
) -> PlotCollection:
    """Plot the result of `expected_accuracy` against epsilon: a panel for each n, a line for each parameter.

    Parameters
    ----------
    expected : pandas.DataFrame
        From `pymc_dp.expected_accuracy`.
    quantity : {"wider", "moved"}
        Column of the table.
    backend, aes, **pc_kwargs
        As in `plot_privacy_profile`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        `quantity` is neither, or the table is not from `expected_accuracy`.

    Notes
    -----
    **Privacy.** Drawn from results on simulated rows.
    """
    titles = {
        "wider": "standard deviation, relative to no privacy",
        "moved": "how far means move, in standard deviations",
    }
    check_choice("quantity", quantity, list(titles))
    if not {"n", "epsilon", "parameter", quantity} <= set(expected.columns):
        raise ValueError("plot_accuracy takes the table that expected_accuracy returns.")
    columns = expected.set_index(["n", "parameter", "epsilon"])[quantity].to_xarray()
    x = xr.zeros_like(columns) + columns["epsilon"]
    lines = xr.concat([x, columns], dim="plot_axis").assign_coords(plot_axis=["x", "y"])
    lines = lines.drop_vars("epsilon").rename(epsilon="point")
    data = xr.Dataset({"accuracy": lines})
    colours = {"color": ["parameter"], **(aes or {})}
    picture = begin(data, backend, **{"cols": ["n"], "aes": colours, **pc_kwargs})
    sizes = columns["n"]
    level = xr.Dataset({"accuracy": xr.zeros_like(sizes, dtype=float) + float(quantity == "wider")})
    add(picture, "hline", "none", plain=True, data=level, color="gray", linestyle="C1")
    add(picture, "line_xy", "lines", data=data)
    label(picture, title=None, xlabel="epsilon", ylabel=titles[quantity])
    if expected["parameter"].nunique() > 1:
        picture.add_legend("parameter")
    return picture


def begin(data: xr.Dataset, backend: str | None, **pc_kwargs: object) -> PlotCollection:
    """Make a plot collection of the data, with room for a legend."""
    from arviz_base import rcParams
    from arviz_plots import PlotCollection

    backend = rcParams["plot.backend"] if backend is None else backend
    given = pc_kwargs.get("figure_kwargs", {})
    if backend == "matplotlib" and isinstance(given, Mapping):  # room for the legend, as in ArviZ's styles
        pc_kwargs["figure_kwargs"] = {"layout": "constrained", **given}
    return PlotCollection.wrap(data, backend=backend, **pc_kwargs)


def add(picture: PlotCollection, how: str, name: str, plain: bool = False, **settings: object) -> None:
    """Draw one of ArviZ's visuals in each panel; with `plain`, without aesthetics."""
    from arviz_plots import visuals

    ignore = picture.aes_set if plain else set()
    picture.map(getattr(visuals, how), name, ignore_aes=ignore, **settings)


def label(picture: PlotCollection, **texts: str | None) -> None:
    """Write the given ones of title, xlabel and ylabel; None stands for ArviZ's own text for the panel."""
    how = {"title": "labelled_title", "xlabel": "labelled_x", "ylabel": "labelled_y"}
    for name, text in texts.items():
        given = {} if text is None else {"text": text}
        add(picture, how[name], name, plain=True, subset_info=True, **given)
