"""The facts of a released likelihood: what is known of it besides its numbers, as JSON has it."""

from typing import NotRequired, TypedDict

from pymc_dp.privacy.budget.known import SharedFacts, Verdict


class OwnersGuarantee(TypedDict):
    """What one of several data owners is guaranteed; names as in `LikelihoodFacts`."""

    name: str
    epsilon: float | None
    delta: float
    events: object
    n: int | None
    unit: str
    ledger: bool


class LikelihoodFacts(SharedFacts):
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
    verdict: dict[str, Verdict]
    rounds: NotRequired[list[float]]
    left_out: NotRequired[list[str]]
    owners: NotRequired[list[OwnersGuarantee]]
