"""report(): one HTML page about a result, for readers without background or statistics.

ArviZ and Matplotlib are imported only when a page is made.
"""

import html
from collections.abc import Sequence
from pathlib import Path

from xarray import DataTree

from pymc_dp.evaluation.check import Check
from pymc_dp.evaluation.compare import Comparison
from pymc_dp.page.findings import bias, other_release, posterior, predictions
from pymc_dp.page.guarantee import assumptions, details, promise, spending, verdict
from pymc_dp.page.parts import STYLE, paragraph
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.report import PrivacyReport, privacy_report


def report(
    idata: DataTree,
    path: str | Path | None = None,
    *,
    title: str = "Result of a private analysis",
    ledger: Ledger | None = None,
    also: Sequence[Check | Comparison] = (),
    var_names: Sequence[str] | None = None,
) -> str:
    """Write one page about a result: what was promised, spent, found and assumed.

    Parameters
    ----------
    idata : DataTree
        Result of private sampling, released or not: the page states first whether it may be published.
    path : str or Path, optional
        File to write. An existing file is replaced.
    title : str
    ledger : Ledger, optional
        Ledger of the data, to show what other results of the same data have cost.
    also : sequence of Check or Comparison
        Other releases to be shown.
    var_names : sequence of str, optional
        Variables to be shown. Default: all.

    Returns
    -------
    str
        The page, as HTML. It needs no other file and no network.

    Raises
    ------
    PrivacyError
        The result has no record of its privacy.

    Notes
    -----
    **Privacy.** Made from released draws and public facts alone: it may be published if the result may be. If
    the result must not be published, the page shows no draws of it.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean", 0, 2), 1, observed=np.zeros(20_000))
    ...     idata = dp.sample(draws=100, epsilon=1, delta=1e-6, chains=1, quiet=True)
    >>> "differential privacy" in dp.report(idata)
    True
    """
    known = privacy_report(idata)
    whole = not known.not_released and not known.changed and known.facts["is_private"]
    sections = [_head(title, idata, known), verdict(known)]
    if known.facts["is_private"]:
        sections += [promise(known), spending(idata, known, ledger)]
    if whole and "posterior" in idata.children:
        sections += [posterior(idata, known, var_names)]
    if whole and "predictions" in idata.children:
        sections += [predictions(idata, var_names)]
    sections += [bias(known), *map(other_release, also), assumptions(known), details(known)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style>"
        f"</head><body><main>{''.join(sections)}</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def _head(title: str, idata: DataTree, known: PrivacyReport) -> str:
    made = next((str(node.attrs["created_at"]) for node in idata.subtree if "created_at" in node.attrs), "")
    versions = known.facts["versions"]
    library = ", ".join(f"{name} {versions[name]}" for name in ("pymc-dp", "pymc") if name in versions)
    n = known.facts["n"]
    data = (
        f"{n:,} {known.facts['unit']}s" if n else f"a number of {known.facts['unit']}s that is not published"
    )
    when = f"Computed {made[:10]}" if made else "Computed"
    line = paragraph(f"{when} from {data}, with {library}.", "small")
    return f"<h1>{html.escape(title)}</h1>{line}"
