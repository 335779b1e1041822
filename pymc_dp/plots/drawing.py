"""What all pictures share: a collection with room for a legend, ArviZ's visuals on it, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import xarray as xr

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


def begin(data: xr.Dataset, backend: str | None, **pc_kwargs: object) -> PlotCollection:
    """Make a collection of the data, with room for a legend."""
    from arviz_base import rcParams
    from arviz_plots import PlotCollection

    backend = rcParams["plot.backend"] if backend is None else backend
    given = pc_kwargs.get("figure_kwargs", {})
    if backend == "matplotlib" and isinstance(given, Mapping):  # room for the legend, as ArviZ's styles do
        pc_kwargs["figure_kwargs"] = {"layout": "constrained", **given}
    return PlotCollection.wrap(data, backend=backend, **pc_kwargs)


def add(picture: PlotCollection, how: str, name: str, plain: bool = False, **settings: object) -> None:
    """Map one of ArviZ's visuals; `plain` ones ignore the aesthetics."""
    from arviz_plots import visuals

    ignore = picture.aes_set if plain else set()
    picture.map(getattr(visuals, how), name, ignore_aes=ignore, **settings)


def label(picture: PlotCollection, **texts: str | None) -> None:
    """Write title, xlabel and ylabel, those that are named; None is the panel's own title."""
    how = {"title": "labelled_title", "xlabel": "labelled_x", "ylabel": "labelled_y"}
    for name, text in texts.items():
        given = {} if text is None else {"text": text}
        add(picture, how[name], name, plain=True, subset_info=True, **given)
