"""What all pictures share: a collection, visuals that can be left out, labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


def new_collection(data: xr.Dataset, backend: str | None, pc_kwargs: dict[str, Any]) -> PlotCollection:
    """A collection of one picture, with room for a legend."""
    from arviz_base import rcParams
    from arviz_plots import PlotCollection

    backend = rcParams["plot.backend"] if backend is None else backend
    if backend == "matplotlib":  # makes room for the legend, as ArviZ's styles do
        pc_kwargs["figure_kwargs"] = {"layout": "constrained", **pc_kwargs.get("figure_kwargs", {})}
    return PlotCollection.wrap(data, backend=backend, **pc_kwargs)


def map_visual(
    collection: PlotCollection,
    function: Callable[..., Any],
    name: str,
    visuals: Mapping[str, Any],
    plain: bool = False,
    **defaults: Any,
) -> None:
    """Map one visual with its defaults, unless it was switched off; `plain` ones ignore the aesthetics."""
    from arviz_plots.plots.utils import get_visual_kwargs

    given = get_visual_kwargs(visuals, name)
    if given is not False:
        ignore: Sequence[str] | set = collection.aes_set if plain else set()
        collection.map(function, name, ignore_aes=ignore, **{**defaults, **given})


def map_labels(collection: PlotCollection, visuals: Mapping[str, Any], **texts: str | None) -> None:
    """Map title, xlabel and ylabel, those that are named; None is the panel's own title."""
    from arviz_plots import visuals as draw

    how = {"title": draw.labelled_title, "xlabel": draw.labelled_x, "ylabel": draw.labelled_y}
    for name, text in texts.items():
        given = {} if text is None else {"text": text}
        map_visual(collection, how[name], name, visuals, plain=True, subset_info=True, **given)
