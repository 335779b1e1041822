"""The facts of a released likelihood: what is known of it besides its numbers, as JSON has it."""

from typing import NotRequired, TypedDict

from pymc_dp.privacy.budget.known import Fit, PublicArray, Verdict


class OwnersGuarantee(TypedDict):
    """What one of several data owners is guaranteed; names as in `LikelihoodFacts`."""

    name: str
    epsilon: float | None
    delta: float
    events: object
    n: int | None
    unit: str
    ledger: bool


class LikelihoodFacts(TypedDict):
    """Facts of a release; those that are not required are left out by whoever writes numbers of their own.

    Attributes
    ----------
    epsilon, delta : float
        Of the budget; epsilon is None where there is no privacy.
    events : object
        As `EventSet.to_json` writes them.
    neighboring_relation : {"substitute", "add_remove"}
    unit : {"row", "person"}
    n : int or None
        None where it is private.
    tables : list of int
        Numbers of records, where there are several tables.
    is_private, debug_seed_used : bool
    versions : dict of str to str
    verdict : dict of str to Verdict
        By parameter.
    fit : Fit
        Whether outcomes are spread as the model says.
    rounds : list of float
        Shares of the budget of the search's releases.
    integrated, left_out, trusted_ops : list of str
        Effects that were integrated; Deterministics that read rows; Ops that the user vouched for.
    public_arrays : list
        Label, shape and kind of each.
    owners : list of OwnersGuarantee
    """

    epsilon: float | None
    delta: float
    events: object
    neighboring_relation: str
    unit: str
    n: int | None
    is_private: bool
    debug_seed_used: bool
    versions: dict[str, str]
    verdict: dict[str, Verdict]
    tables: NotRequired[list[int]]
    fit: NotRequired[Fit]
    rounds: NotRequired[list[float]]
    integrated: NotRequired[list[str]]
    left_out: NotRequired[list[str]]
    trusted_ops: NotRequired[list[str]]
    public_arrays: NotRequired[list[PublicArray]]
    owners: NotRequired[list[OwnersGuarantee]]
