"""Types of the facts about a run, or about a released likelihood, as values for JSON."""

from typing import NotRequired, TypedDict

from pymc_dp.privacy.budget.plan import PlanFacts


class Variable(TypedDict):
    """A released variable; `dims` is None where a dimension has no name, `free` False for Deterministics."""

    name: str
    free: bool
    dtype: str
    shape: list[int]
    dims: list[str | None]


class Coordinate(TypedDict):
    """Coordinates of a dimension; see `encode_coordinate`."""

    dtype: str
    values: list[float | str]


class ReleasedFacts(TypedDict):
    """How draws are decoded, and which Deterministics are not released since they read rows."""

    variables: list[Variable]
    coords: dict[str, Coordinate]
    left_out_deterministics: list[str]


class OwnerFacts(TypedDict):
    """Facts about one of several data owners."""

    name: str
    plan: PlanFacts
    n: int | None
    unit: str
    clip: str
    ledger: bool


class Verdict(TypedDict):
    """How much the release says about a coordinate of a likelihood; see `likelihood.report.judge`."""

    verdict: str
    wider: float
    of_prior: float


class Fit(TypedDict):
    """Result of the test of fit of the model behind a released likelihood; see `fit.judge_fit`."""

    said: str
    tail: float | None
    error: float | None
    p_value: float | None


class Predictions(TypedDict):
    """Names of predicted variables, and shapes of the inputs."""

    variables: list[str]
    inputs: dict[str, list[int]]


#: Label, shape and kind of an array that was read as public.
type PublicArray = tuple[str, list[int], str]


class Censoring(TypedDict):
    """Noisy number of records whose censoring bound is unknown, and how times were compared.

    `in_doubt`: whether bounds are unknown for a variable whose times cannot be compared in intervals.
    """

    unknown: float
    noise: float
    in_intervals: bool
    in_doubt: bool
    said: str


class AccuracyFacts(TypedDict, total=False):
    """Results of releases other than those of the search; see `pymc_dp.likelihood.releases`."""

    censoring: Censoring
    fit: Fit


class SharedFacts(AccuracyFacts):
    """Facts that a released likelihood and its draws have in common; n is None where it is private."""

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
    """Facts about a run."""

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
    """The guarantee of one of several data owners; names as in `LikelihoodFacts`."""

    name: str
    epsilon: float | None
    delta: float
    events: object
    n: int | None
    unit: str
    ledger: bool


class LikelihoodFacts(SharedFacts):
    """Facts about a released likelihood. Those that are not required may be missing in ones made by users.

    Attributes
    ----------
    epsilon, delta : float
        The budget; epsilon is None where there is no privacy.
    events : object
        Events in the form of `EventSet.to_json`.
    neighboring_relation : {"substitute", "add_remove"}
    unit : {"row", "person"}
    n : int or None
        Number of records (persons); None where it is private.
    tables : list of int
        Numbers of records of each table, where there are several.
    is_private, debug_seed_used : bool
    versions : dict of str to str
    verdict : dict of str to Verdict
        Verdict for each parameter.
    censoring : Censoring
        How times were compared that are censored by arrays of bounds.
    fit : Fit
        Whether outcomes are distributed as in the model.
    rounds : list of float
        Shares of the budget of the search's releases.
    integrated, left_out, trusted_ops : list of str
        Effects that were integrated out; Deterministics that read rows; Ops that the user vouched for.
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
