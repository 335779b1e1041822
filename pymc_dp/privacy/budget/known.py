"""What is known of a run, or of a released likelihood, as JSON has it: the types of their facts."""

from typing import NotRequired, TypedDict

from pymc_dp.privacy.budget.plan import PlanFacts


class Variable(TypedDict):
    """A released variable; `dims` of None have no name, and `free` ones no Deterministic."""

    name: str
    free: bool
    dtype: str
    shape: list[int]
    dims: list[str | None]


class Coordinate(TypedDict):
    """Coordinates of a dimension: see `encode_coordinate`."""

    dtype: str
    values: list[float | str]


class ReleasedFacts(TypedDict):
    """How draws are read, and which Deterministics are not there since they read rows."""

    variables: list[Variable]
    coords: dict[str, Coordinate]
    left_out_deterministics: list[str]


class OwnerFacts(TypedDict):
    """One of several data owners."""

    name: str
    plan: PlanFacts
    n: int | None
    unit: str
    clip: str
    ledger: bool


class Verdict(TypedDict):
    """What is known of a coordinate of a released likelihood: see `likelihood.report.judge`."""

    verdict: str
    wider: float
    of_prior: float


class Fit(TypedDict):
    """What counts say of the model behind a released likelihood: see `fit.judge_fit`."""

    said: str
    tail: float | None
    error: float | None
    p_value: float | None


class Predictions(TypedDict):
    """What was predicted, and the shapes of the inputs."""

    variables: list[str]
    inputs: dict[str, list[int]]


#: Label, shape and kind of an array that was read as public.
type PublicArray = tuple[str, list[int], str]


class Censoring(TypedDict):
    """Of how many records a bound of censoring is unknown, and what was done: in doubt, if nothing can be."""

    unknown: float
    noise: float
    in_intervals: bool
    in_doubt: bool
    said: str


class AccuracyFacts(TypedDict, total=False):
    """What releases beside the search say of its accuracy: see `pymc_dp.likelihood.releases`."""

    censoring: Censoring
    fit: Fit


class SharedFacts(AccuracyFacts):
    """What a released likelihood and its draws have in common; n is None where it is private."""

    is_private: bool
    debug_seed_used: bool
    n: int | None
    unit: str
    versions: dict[str, str]
    tables: NotRequired[list[int]]
    integrated: NotRequired[list[str]]
    public_arrays: NotRequired[list[PublicArray]]
    trusted_ops: NotRequired[list[str]]


class Facts(ReleasedFacts, SharedFacts):
    """What is known of a run."""

    plan: PlanFacts
    step: str
    mechanism: str
    approximation: str
    clip: str
    clipped: NotRequired[str]
    tempering: float
    proposal: str
    released_variables: list[str]
    withheld_dims: list[str]
    excluded_deterministics: list[str]
    call: str
    stats: dict[str, str]
    owners: NotRequired[list[OwnerFacts]]
    verdict: NotRequired[dict[str, Verdict]]
    predictions: NotRequired[Predictions]


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
    censoring : Censoring
        How times were compared that arrays of bounds censor.
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
