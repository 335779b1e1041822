"""What was promised, and how a run spends it.

ArviZ and Matplotlib are imported when something is drawn: they take as long as the rest of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_dp.plots.drawing import add, begin, label
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.report import PrivacyReport, privacy_report

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


def plot_privacy_profile(
    obj: object,
    deltas: ArrayLike | None = None,
    *,
    backend: str | None = None,
    **pc_kwargs: object,
) -> PlotCollection:
    """Plot delta (on a logarithmic axis) against epsilon: the whole guarantee, one line an object.

    Parameters
    ----------
    obj : object, or mapping of str to object
        What has a guarantee: from `pymc_dp.privacy.compose`, a plan, a report, a ledger (what was spent), or
        a result of private sampling. The keys of a mapping are the names in the legend.
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
        `deltas` is not in (0, 1), there is nothing to plot, or nothing finite.

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
    idata: xr.DataTree,
    *,
    backend: str | None = None,
    **pc_kwargs: object,
) -> PlotCollection:
    """Plot epsilon, at the run's delta, against iteration, with the target as a line.

    Parameters
    ----------
    idata : xarray.DataTree
        From `pymc.sample` with a private step, `pymc_dp.sample` or `pymc_dp.release`. Warm-up is shown,
        kept or not: it is paid for.
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
    **Privacy.** Drawn from the plan of the run, which covers all chains at each iteration: one line.
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
