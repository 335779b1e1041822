"""What all pictures share: a collection, visuals that can be left out, labels, a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

if TYPE_CHECKING:
    from arviz_plots import PlotCollection


class Picture:
    """A collection, and visuals of which each can be changed or left out.

    Parameters
    ----------
    names : sequence of str
        Of the visuals.
    visuals : mapping or None
        The user's arguments of each, or False to leave it out.
    """

    collection: PlotCollection

    def __init__(self, names: Sequence[str], visuals: Mapping[str, Any] | None):
        from arviz_base.validate import validate_dict_argument

        self._visuals = validate_dict_argument(visuals, valid_keys=names)

    def begin(
        self, data: xr.Dataset, given: PlotCollection | None, backend: str | None, **pc_kwargs: Any
    ) -> None:
        """Draw into the collection that is given, or a new one of the data with room for a legend."""
        from arviz_base import rcParams
        from arviz_plots import PlotCollection

        backend = rcParams["plot.backend"] if backend is None else backend
        if backend == "matplotlib":  # makes room for the legend, as ArviZ's styles do
            pc_kwargs["figure_kwargs"] = {"layout": "constrained", **pc_kwargs.get("figure_kwargs", {})}
        new = PlotCollection.wrap(data, backend=backend, **pc_kwargs) if given is None else given
        self.collection = new

    def add(self, how: str, name: str, plain: bool = False, **defaults: Any) -> None:
        """Map one of ArviZ's visuals, unless it was switched off; `plain` ones ignore the aesthetics."""
        from arviz_plots import visuals
        from arviz_plots.plots.utils import get_visual_kwargs

        given = get_visual_kwargs(self._visuals, name)
        if given is not False:
            ignore = self.collection.aes_set if plain else set()
            self.collection.map(getattr(visuals, how), name, ignore_aes=ignore, **{**defaults, **given})

    def label(self, **texts: str | None) -> None:
        """Write title, xlabel and ylabel, those that are named; None is the panel's own title."""
        how = {"title": "labelled_title", "xlabel": "labelled_x", "ylabel": "labelled_y"}
        for name, text in texts.items():
            given = {} if text is None else {"text": text}
            self.add(how[name], name, plain=True, subset_info=True, **given)

    def add_legend(self, dim: str, **defaults: Any) -> None:
        """Add a legend, unless it was switched off."""
        from arviz_plots.plots.utils import get_visual_kwargs

        given = get_visual_kwargs(self._visuals, "legend")
        if given is not False:
            self.collection.add_legend(dim, **{**defaults, **given})
