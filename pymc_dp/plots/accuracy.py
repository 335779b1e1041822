"""What a budget buys, drawn: widths and moves of each parameter against epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import xarray as xr

from pymc_dp.bounds import check_choice
from pymc_dp.plots.drawing import add, begin, label

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


def plot_accuracy(
    expected: pd.DataFrame,
    *,
    quantity: str = "wider",
    backend: str | None = None,
    aes: Mapping[str, Sequence[str]] | None = None,
    **pc_kwargs: object,
) -> PlotCollection:
    """Plot what `expected_accuracy` found against epsilon: a panel for each n, a line for each parameter.

    Parameters
    ----------
    expected : pandas.DataFrame
        From `pymc_dp.expected_accuracy`.
    quantity : {"wider", "moved"}
    backend, aes, **pc_kwargs
        As in `plot_privacy_profile`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        `quantity` is neither, or the table is no such table.

    Notes
    -----
    **Privacy.** Drawn from simulated rows' results.
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
