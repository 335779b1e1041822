"""Models that must be refused: each would leak, or void the guarantee, if it were accepted as it stands.

Of those with the reason "left out" a Deterministic reads rows: they are read without it.

The functions read private arrays of `zoo.pool`, as those in `zoo.py` do: a leak is one whatever the values
are. Not among them is what no graph shows: numbers computed from the data with NumPy, outside of the graph
(``pm.Normal("m", y.mean(), 1)`` on an array), copies of a part of the records (`pm.Data` and ``observed=``
copy NumPy arrays: a lag written as ``y[:-1]`` beside ``observed=y[1:]`` is two arrays that share nothing),
and HSGP's own ``eval``.

Of 259 of these models, commit c597f0d, which looked for leaves as long as there are records and tried values,
accepted 162 (`Leak.accepted_before`); 98 it refused, some of them for another reason than the right one.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import scipy.sparse
from pymc.distributions import transforms
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import wrap_py
from pytensor.conditional import ifelse
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.scan.basic import scan
from pytensor.scan.utils import until
from pytensor.tensor.fft import rfft

from tests.records.zoo import GROUPS, TIMES, Entry, N, entry_of, slopes


@dataclass(frozen=True)
class Leak(Entry):
    """A model that must be refused.

    Attributes
    ----------
    reason : str
        Why; a key of `REASONS`, or `LEFT_OUT`.
    accepted_before : bool
        Whether the record layer accepted it when it looked at leaves and tried values (commit c597f0d).
    """

    reason: str = ""
    accepted_before: bool = False


LEAKS: dict[str, Leak] = {}


def leak(reason, **kwargs):
    """Register a model that must be refused, for a reason."""

    def register(declare):
        made = entry_of(declare, **kwargs)
        assert made.name not in LEAKS, made.name
        assert reason in {*REASONS, LEFT_OUT}, reason
        before = made.name in ACCEPTED_BEFORE
        LEAKS[made.name] = Leak(**vars(made), reason=reason, accepted_before=before)
        return declare

    return register


def normal(mu, y, sigma=1.0):
    pm.Normal("y", mu, sigma, observed=y)


# Not refused: a Deterministic that reads rows stays out of what is released.
LEFT_OUT = "left out"

# What the message must say. The same for every model of a kind: a message that names another cause misleads.
REASONS: dict[str, str] = {
    "reduction": "factorise.*`(sum|max|min|prod|any|all|argmax|dot)` (over|of) ",
    "sweep": "factorise.*`(cumsum|sort|argsort)\\w*` over the records",
    "slice": "factorise.*a part of the records, or their order",
    "mask": "factorise.*by a mask",
    "gather": "factorise.*(by position|order|`sum` over|`join` over)",
    "scatter": "factorise.*(at positions that depend|order|over the records|by a mask)",
    "contraction": "factorise.*`dot` (over|of) (the )?records|Which axis",
    "join": "factorise.*(`(join|split)` over the records|a part of the records)",
    "reshape": "factorise.*`reshape` over the records",
    "broadcast": "factorise.*(over the records|a part of the records|every one with every other)",
    "linear algebra": "factorise.*(stops for all|with records|over the|every one|no rule|part of)",
    "shape from values": "factorise.*(no rule|by a mask|over the records|a part of the records)",
    "condition": "factorise.*(over the records|a part of the records|condition|may raise)",
    "scan": "factorise.*(`\\w+` over the records|`scan`|a part of the records)",
    "inner graph": "is inside of an operation",
    "inner graph or view": "is inside of an operation|part of an array of records",
    "sparse": "factorise.*(over the records|of the records|part of the records|records with records|no rule)",
    "unknown Op": "factorise.*whose code may hold data",
    "prior": "The (prior|initial value) of '\\w+' reads private records",
    "shape by numbers": "whose length is known by the numbers of an array",
    "potential": "Potential '\\w+' reads private records",
    "initial value": "The initial value of '\\w+' reads private records",
    "transform": "The (prior|transform|initial value) of '\\w+' reads private records",
    "dims": "(prior of|[Dd]imension) '\\w+' reads private records",
    "observed": "'y' does not factorise.*(records|order)",
    "one number": "'y' is a single number|records with records|Which axis",
    "latent": "Free variable '\\w+' has (an entry for each record|type int64)|The prior of",
    "latent gp": "The prior of|which axis|Which axis",
    "missing": "'y' has missing values",
    "random": "draws random numbers|cannot derive the log-density of observed variable 'y'",
    "shared memory": "views of one array|part of an array of records|in shape|one person|overlap",
    "longer": "longer than the 43 records",
    "ambiguous": "[Ww]hich axis",
    "units": "one for each privacy unit",
    "changing": "default_update",
    "read as numbers": "reads records as numbers",
}

# By the record layer that looked at leaves and tried values.
ACCEPTED_BEFORE: frozenset[str] = frozenset(
    """
    prior_mean_of_array prior_scale_of_data prior_bounds_of_data prior_truncated_at_data
    prior_at_one_record prior_of_another_array prior_of_flags g_prior prior_of_group_means
    custom_dist_prior_with_closure prior_in_inner_graph prior_of_closed_over_data
    mixture_prior_weights_of_data transform_of_distribution_bounds deterministic_residual
    deterministic_is_the_outcome deterministic_first_outcome deterministic_in_inner_graph
    deterministic_in_scan deterministic_of_sparse deterministic_stored_values
    deterministic_of_closed_over_data initval_column_means initval_of_constant initval_least_squares
    initval_of_one_record support_point_of_data support_point_of_one_record transform_centred_at_mean
    centred_array scaled_by_maximum scaled_by_std scaled_by_norm sigma_of_data trials_of_largest
    share_of_exposure any_flag all_positive any_missing logsumexp_over_records logsumexp_kept
    product_of_records argmax_of_records records_on_second_axis_reduced all_axes_reduced negative_axis
    custom_logp_with_closure custom_dist_with_closure truncated_at_largest censored_at_largest
    mixture_component_of_data cumulative_sum cumulative_product cumulative_in_matrix sorted_records
    ranks median_of_records quantile_of_records searched_in_records differences reversed_records rolled
    difference_to_first difference_to_last same_group_as_first spatial_lag first_of_three_axes
    step_of_two mean_of_masked number_of_masked array_masked_by_rows permuted_by_array taken
    taken_along_records neighbour_by_arange previous_by_arange reversed_by_arange arange_of_two_steps
    first_record_by_zeros arange_from_one_on_padded effect_of_next_person index_is_a_count
    table_of_records_at_public_rows first_record_set record_written_elsewhere masked_set segment_means
    inner_product gram_matrix einsum_over_records tensordot_over_records batched_gram
    parameter_per_record_contracted hat_matrix whitened_by_cholesky qr_reparametrised
    principal_components determinant kernel_regression outer_and_diagonal fourier_transform convolved
    joined_records joined_and_cut padded_and_cut split_and_swapped reshape_of_transposed
    transposed_then_reshaped folded raveled tiled repeated every_row_all_records
    first_record_for_everybody column_plus_row number_of_groups number_of_flags length_of_largest
    range_of_one_record lazy_branch branch_of_first_record asserted_of_data scan_until_data
    scan_as_long_as_data constant_in_inner_graph reduction_in_scan_constant sparse_transposed
    sparse_stored_values sparse_column_slice_of_records sparse_gram closure_of_data op_without_rule
    op_with_data_of_its_own lagged_views lagged_views_of_rows initval_view_of_records
    records_in_a_table_view reversed_view windows first_record_in_every_row square_table_of_records
    square_table_times_rows number_masked_of_public_table number_masked_of_matrix
    public_slice_up_to_a_record slice_up_to_largest split_by_records reshape_by_a_record
    repeated_by_records mask_of_data scale_in_inner_graph rows_of_a_closure_in_another_order
    scale_of_a_closure closure_in_a_mixture closure_in_a_censored closure_in_a_prior_that_starts_at_zero
    part_of_records_in_inner_graph scalar_op_with_data_of_its_own
    scalar_op_in_a_composite square_table_by_both_axes sparse_made_dense
    """.split()
)


# priors that read records


@leak("prior")
def prior_mean_of_array(y):
    normal(pm.Normal("m", pm.math.mean(y), 0.01), y)


@leak("prior")
def prior_mean_of_data(y):
    data = pm.Data("data", y)
    normal(pm.Normal("m", data.mean(), 1), data)


@leak("prior")
def prior_scale_of_data(x, y):
    normal(pm.Normal("b", 0, 2.5 / pt.std(x)) * x, y)


@leak("prior")
def prior_bounds_of_data(y):
    normal(pm.Uniform("m", pt.min(y), pt.max(y)), y)


@leak("prior")
def prior_truncated_at_data(pos):
    normal(pm.Truncated("m", pm.Normal.dist(0, 10), upper=pt.max(pos)), pos)


@leak("prior")
def prior_at_one_record(x, y):
    normal(pm.Normal("m", pt.constant(x)[3], 1), y)


@leak("prior")
def prior_of_another_array(z, y):
    """An array that the likelihood does not read."""
    normal(pm.Normal("m", pt.sum(z), 1), y)


@leak("prior")
def prior_of_flags(treated, y):
    normal(pm.Normal("m", 0, pt.switch(pt.any(treated), 1.0, 2.0)), y)


@leak("shape by numbers")
def prior_of_counts(k, y):
    w = pm.Dirichlet("w", a=1.0 + pt.bincount(pt.constant(k), minlength=3))
    pm.NormalMixture("y", w, [-1.0, 0.0, 1.0], 1.0, observed=y)


@leak("prior")
def g_prior(X, y):
    x = pt.constant(X)
    b = pm.MvNormal("b", np.zeros(3), cov=pt.linalg.inv(x.T @ x), shape=3)
    normal(x @ b, y)


@leak("prior")
def prior_of_group_means(g, y):
    one_hot = pt.eq(pt.constant(g)[:, None], pt.arange(GROUPS))
    means = pt.dot(y, one_hot) / one_hot.sum(axis=0)
    normal(pm.Normal("a", means, 1.0, shape=GROUPS)[g], y)


@leak("prior")
def lkj_scale_of_data(Y):
    sd = pm.HalfNormal.dist(pt.std(Y, axis=0), shape=2)
    chol, _, _ = pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=sd)
    pm.MvNormal("y", np.zeros(2), chol=chol, observed=Y)


@leak("prior")
def interpolated_prior_on_data(unit, y):
    """A density that is made of as many persons."""
    normal(pm.Interpolated("m", np.linspace(-3, 3, N), unit), y)


@leak("inner graph")
def custom_prior_with_closure(x, y):
    def logp(value, mu):
        return -0.5 * (value - mu - pt.sum(x)) ** 2

    normal(pm.CustomDist("m", 0.0, logp=logp), y)


@leak("inner graph")
def custom_dist_prior_with_closure(x, y):
    def dist(mu, size):
        return pm.Normal.dist(mu + pt.mean(x), 1.0, size=size)

    normal(pm.CustomDist("m", 0.0, dist=dist), y)


@leak("prior")
def prior_of_an_observed_variable(y, y2):
    first = pm.Normal("y", pm.Normal("a"), 1.0, observed=y)
    pm.Normal("y2", pm.Normal("m", first.mean(), 1.0), 1.0, observed=y2)


@leak("inner graph")
def prior_in_inner_graph(x, y):
    u = pt.scalar()
    mean = OpFromGraph([u], [u * pt.sum(pt.constant(x))])(pt.as_tensor(1.0, dtype="float64"))
    normal(pm.Normal("m", mean, 1), y)


@leak("prior")
def prior_in_scan(x, y):
    total = scan(
        lambda x, s: s + x, sequences=[pt.constant(x)], outputs_info=[pt.zeros(())], return_updates=False
    )
    normal(pm.Normal("m", total[-1], 1), y)


@leak("prior")
def prior_of_sparse_means(X, y):
    x = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))
    means = pytensor.sparse.sp_sum(x, axis=0)
    b = pm.Normal("b", means, 1.0, shape=3)
    normal(pytensor.sparse.dot(x, b[:, None])[:, 0], y)


@leak("prior")
def prior_of_closed_over_data(y):
    @wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
    def level(scale):
        return np.asarray(scale * y.mean())

    normal(pm.Normal("m", level(pt.as_tensor(1.0, dtype="float64")), 1), y)


@leak("prior")
def prior_shape_of_data(g, y):
    """As many entries as there are groups, counted in the graph."""
    index = pm.Data("g", g)
    normal(pm.Normal("a", shape=pt.unique(index).shape[0]).sum() + pt.zeros(N), y)


@leak("prior")
def prior_size_of_largest_code(g, y):
    index = pm.Data("g", g)
    normal(pm.Normal("a", shape=pt.max(index) + 1)[index], y)


@leak("dims")
def dims_of_largest_code(g, y):
    index = pm.Data("g", g)
    pm.modelcontext(None).add_coord("group", length=pt.max(index) + 1)
    normal(pm.Normal("a", dims="group")[index], y)


@leak("prior")
def mixture_prior_weights_of_data(unit, y):
    p = pt.mean(unit)
    m = pm.NormalMixture("m", w=pt.stack([p, 1 - p]), mu=[-1.0, 1.0], sigma=1.0)
    normal(m, y)


@leak("prior")
def transform_of_distribution_bounds(x, y):
    """Beta scaled to the range of the data."""
    low, high = pt.min(x), pt.max(x)
    normal(pm.Triangular("m", lower=low, c=(low + high) / 2, upper=high), y)


# Potentials


@leak("potential")
def potential_sum_of_data(y):
    m = pm.Normal("m")
    pm.Potential("extra", m * pm.math.sum(y))
    normal(m, y)


@leak("potential")
def potential_elementwise(x, y):
    m = pm.Normal("m")
    pm.Potential("extra", -0.5 * (x - m) ** 2)
    normal(m, y)


@leak("potential")
def potential_likelihood(y, y2):
    m = pm.Normal("m")
    pm.Potential("extra", pm.logp(pm.Normal.dist(m, 1), y2).sum())
    normal(m, y)


@leak("potential")
def weibull_censored_by_potential(x, pos, offset):
    """The gallery's survival model: censored persons in a Potential."""
    beta = pm.math.exp(pm.Normal("b") * x)
    pm.Weibull("y", alpha=1.5, beta=beta, observed=pos)
    pm.Potential("censored", -((offset / beta) ** 1.5))


@leak("potential")
def potential_of_observed_variable(y):
    m = pm.Normal("m")
    outcome = pm.Normal("y", m, 1, observed=y)
    pm.Potential("extra", m * outcome.sum())


@leak("potential")
def potential_constraint(x, y):
    b = pm.Normal("b")
    pm.Potential("constraint", pt.switch(pt.all(b * x > -10), 0.0, -np.inf))
    normal(b * x, y)


@leak("potential")
def potential_of_one_record(x, y):
    b = pm.Normal("b")
    pm.Potential("first", -((b - pt.constant(x)[0]) ** 2))
    normal(b * x, y)


# Deterministics


@leak("left out")
def deterministic_mean(X, y):
    normal(pm.Deterministic("mu", pt.dot(X, slopes())), y)


@leak("left out")
def deterministic_residual(y):
    m = pm.Normal("m")
    outcome = pm.Normal("y", m, 1, observed=y)
    pm.Deterministic("resid", outcome - m)


@leak("left out")
def deterministic_is_the_outcome(y):
    outcome = pm.Normal("y", pm.Normal("m"), 1, observed=y)
    pm.Deterministic("copy", outcome)


@leak("left out")
def deterministic_first_outcome(y):
    outcome = pm.Normal("y", pm.Normal("m"), 1, observed=y)
    pm.Deterministic("first", outcome[0])


@leak("left out")
def deterministic_likelihood_value(y):
    m = pm.Normal("m")
    normal(m, y)
    pm.Deterministic("ll", pm.logp(pm.Normal.dist(m, 1), y).sum())


@leak("left out")
def deterministic_mean_over_records(X, y):
    x, b = pm.Data("x", X), slopes()
    pm.Deterministic("level", (x @ b).mean())
    normal(x @ b, y)


@leak("left out")
def deterministic_effect_by_row(g, y):
    a = pm.Normal("a", shape=GROUPS)
    pm.Deterministic("of person", a[g])
    normal(a[g], y)


@leak("left out")
def deterministic_count(treated, y):
    pm.Deterministic("number", pt.nonzero(pt.constant(treated))[0].shape[0] * pm.Normal("m"))
    normal(pm.Normal("c"), y)


def entries(size):
    """How many entries memory of this size has, as a number."""
    return pt.empty(pt.cast(size, "int64"))[0].set(1.0)[1:].set(1.0).sum()


@leak("left out")
def deterministic_size_of_memory(x, y):
    pm.Deterministic("size", entries(1e3 * pt.abs(pt.constant(x)[5]) + 1) * pm.Normal("m"))
    normal(pm.Normal("c"), y)


@leak("prior")
def prior_of_the_size_of_memory(x, y):
    normal(pm.Normal("m", entries(1 + (pt.constant(x) ** 2).sum()), 1), y)


@leak("observed")
def size_of_memory(x, y):
    normal(pm.Normal("m") * x * entries(1 + pt.abs(x).max()), y)


@leak("observed")
def sums_of_others_at_two_ranges(x, y):
    places = pt.arange(x.shape[0])
    others = (pt.as_tensor(x)[:, None] * pt.ones((1, x.shape[0])))[places, places].set(0.0)
    normal(pm.Normal("m") * others.sum(axis=0), y)


@leak("left out")
def deterministic_any(treated, y):
    m = pm.Normal("m")
    pm.Deterministic("any", pt.any(treated) * m)
    normal(m, y)


@leak("inner graph")
def deterministic_in_inner_graph(x, y):
    m, u = pm.Normal("m"), pt.scalar()
    pm.Deterministic("level", OpFromGraph([u], [u + pt.constant(x)[0]])(m))
    normal(m, y)


@leak("inner graph")
def deterministic_in_scan(x, y):
    m = pm.Normal("m")
    path = scan(
        lambda s, x: s + x[2],
        outputs_info=[m],
        non_sequences=[pt.constant(x)],
        n_steps=3,
        return_updates=False,
    )
    pm.Deterministic("path", path)
    normal(m, y)


@leak("left out")
def deterministic_of_sparse(X, y):
    x = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))
    b = slopes()
    pm.Deterministic("mu", pytensor.sparse.dot(x, b[:, None]))
    normal(pt.dot(X, b), y)


@leak("left out")
def deterministic_stored_values(X, y):
    x = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))
    pm.Deterministic("stored", pytensor.sparse.csm_data(x) * pm.Normal("m"))
    normal(pm.Normal("c"), y)


@leak("left out")
def deterministic_of_closed_over_data(y):
    @wrap_py(itypes=[pt.dscalar], otypes=[pt.dvector])
    def residual(m):
        return y - m

    m = pm.Normal("m")
    pm.Deterministic("resid", residual(m))
    normal(m, y)


@leak("left out")
def deterministic_of_ordered(x, k):
    c = pm.Normal("c", shape=2, transform=transforms.ordered, initval=[-1, 1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=c, observed=k)


@leak("left out")
def deterministic_of_hsgp(x, y):
    gp = pm.gp.HSGP(m=[7], L=[4.0], cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
    gp._X_center = np.zeros(1)
    normal(gp.prior("f", x[:, None]), y)


@leak("left out")
def deterministic_of_unread_array(z, y):
    m = pm.Normal("m")
    pm.Deterministic("shift", m + pt.max(z))
    normal(m, y)


@leak("left out")
def deterministic_length_of_largest(count, y):
    """Its shape is a statistic."""
    m = pm.Normal("m")
    pm.Deterministic("path", m * pt.arange(pt.max(count)))
    normal(m, y)


@leak("left out")
def deterministic_random_of_data(x, y):
    """A draw from a distribution of rows is noise that nobody accounted for."""
    m = pm.Normal("m")
    pm.Deterministic("replicate", pm.Normal.dist(pt.mean(x), 1e-6))
    normal(m, y)


# initial values, support points, transforms


@leak("initial value")
def initval_column_means(X, y):
    x = pm.Data("x", X)
    normal(x @ pm.Normal("b", shape=3, initval=x.mean(0)), y)


@leak("initial value")
def initval_of_constant(y):
    normal(pm.Normal("m", initval=pt.mean(y)), y)


@leak("initial value")
def initval_least_squares(X, y):
    x = pt.constant(X)
    normal(x @ pm.Normal("b", shape=3, initval=pt.linalg.solve(x.T @ x, x.T @ y)), y)


@leak("initial value")
def initval_of_one_record(x, y):
    normal(pm.Normal("m", initval=pt.constant(x)[0]), y)


@leak("inner graph")
def support_point_of_data(x, y):
    def support_point(rv, size, mu):
        return mu + pt.mean(x)

    m = pm.CustomDist(
        "m", 0.0, logp=lambda v, mu: -0.5 * (v - mu) ** 2, support_point=support_point, signature="()->()"
    )
    normal(m, y)


@leak("inner graph")
def support_point_of_one_record(x, y):
    def support_point(rv, size, mu):
        return mu + pt.constant(x)[7]

    m = pm.CustomDist("m", 0.0, logp=lambda v, mu: -0.5 * (v - mu) ** 2, support_point=support_point)
    normal(m, y)


@leak("inner graph")
def transform_bounds_of_data(y):
    m = pm.Flat(
        "m", transform=transforms.Interval(bounds_fn=lambda *args: (pt.min(y), pt.max(y))), initval=0.0
    )
    normal(m, y)


class _Shift(transforms.Transform):
    """Coordinates centred at something."""

    name = "shift"

    def __init__(self, by):
        self.by = by

    def forward(self, value, *inputs):
        return value - self.by

    def backward(self, value, *inputs):
        return value + self.by

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value)


@leak("inner graph")
def transform_centred_at_mean(x, y):
    normal(pm.Normal("m", transform=_Shift(pt.mean(x))) * x, y)


@leak("inner graph")
def transform_centred_at_a_record(x, y):
    normal(pm.Normal("m", transform=_Shift(pt.constant(x)[1])) * x, y)


@leak("inner graph")
def transform_of_data_in_chain(x, y):
    m = pm.HalfNormal("m", transform=transforms.Chain([transforms.log, _Shift(pt.max(x))]))
    normal(m * x, y)


# likelihoods that couple records: reductions


@leak("reduction")
def centred_in_graph(X, y):
    x = pm.Data("x", X)
    normal((x - x.mean(0)) @ slopes(), y)


@leak("reduction")
def centred_array(X, y):
    """Constants, that a compiler would fold."""
    normal((pt.as_tensor(X) - pt.constant(X).mean(0)) @ slopes(), y)


@leak("reduction")
def scaled_by_maximum(X, y):
    normal(pt.dot(X / pt.max(X, axis=0), slopes()), y)


@leak("reduction")
def scaled_by_std(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * x / x.std(), y)


@leak("reduction")
def scaled_by_norm(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * x / pt.linalg.norm(x), y)


@leak("reduction")
def sigma_of_data(y):
    normal(pm.Normal("m"), y, sigma=pt.sqrt(pt.mean(pt.sqr(y))))


@leak("reduction")
def sigma_of_observed_data(y):
    data = pm.Data("data", y)
    normal(pm.Normal("m"), data, sigma=data.std())


@leak("reduction")
def trials_of_largest(x, count):
    c = pm.Data("count", count)
    pm.Binomial("y", n=c.max(), p=pm.math.invlogit(pm.Normal("b") * x), observed=c)


@leak("reduction")
def share_of_exposure(offset, yc):
    e = pt.constant(offset)
    pm.Poisson("y", pm.HalfNormal("rate") * e / e.sum(), observed=yc)


@leak("reduction")
def any_flag(x, treated, y):
    b = pm.Normal("b", shape=2)
    normal(pt.switch(pt.any(treated), b[0], b[1]) * x, y)


@leak("reduction")
def all_positive(x, y):
    b = pm.Normal("b", shape=2)
    normal(pt.switch(pt.all(pt.constant(x) > 0), b[0], b[1]) * x, y)


@leak("reduction")
def any_missing(x, y):
    normal(pm.Normal("b") * x + pt.isnan(pt.constant(x)).any(), y)


@leak("reduction")
def softmax_over_records(x, y):
    normal(pm.math.softmax(pm.Normal("b") * x, axis=0), y)


@leak("reduction")
def logsumexp_over_records(x, y):
    normal(pm.Normal("b") * x - pt.logsumexp(x), y)


@leak("reduction")
def logsumexp_kept(X, y):
    normal(pt.dot(X - pt.logsumexp(X, axis=0, keepdims=True), slopes()), y)


@leak("reduction")
def product_of_records(unit, y):
    normal(pm.Normal("b") * unit + pt.prod(unit), y)


@leak("reduction")
def argmax_of_records(X, x, y):
    normal(pm.Normal("b") * x + pt.argmax(X, axis=0).sum(), y)


@leak("reduction")
def mean_of_group_effects(g, y):
    """What a parameter's mean over rows is, the rows decide."""
    a = pm.Normal("a", shape=GROUPS)
    normal(a[g] - a[g].mean(), y)


@leak("reduction")
def records_on_second_axis_reduced(XT, y):
    normal(pt.dot(slopes(), XT - pt.mean(XT, axis=1, keepdims=True)), y)


@leak("reduction")
def batch_normalised(X, y):
    hidden = pt.dot(X, pm.Normal("W", shape=(3, 2)))
    hidden = (hidden - hidden.mean(axis=0)) / (hidden.std(axis=0) + 0.1)
    normal(pt.dot(hidden, pm.Normal("v", shape=2)), y)


@leak("reduction")
def all_axes_reduced(T, y):
    normal(pm.Normal("b") * pt.constant(T).sum(axis=(1, 2)) / pt.max(pt.abs(T)), y)


@leak("reduction")
def negative_axis(XT, y):
    normal(pt.dot(slopes(), XT / pt.sum(XT, axis=-1, keepdims=True)), y)


@leak("inner graph")
def custom_logp_with_closure(x, y):
    def logp(value, m):
        return -0.5 * (value - m - pt.mean(x)) ** 2

    pm.CustomDist("y", pm.Normal("m"), logp=logp, observed=y)


@leak("inner graph")
def custom_logp_whose_closure_is_simplified_away(x, y):
    """The mean is a number when the density is derived."""

    def logp(value, m):
        law = pm.Censored.dist(pm.Normal.dist(m - pt.mean(x), 1.0, shape=N), lower=None, upper=3.0)
        return pm.logp(law, value)

    pm.CustomDist("y", pm.Normal("m"), logp=logp, observed=y)


@leak("inner graph")
def custom_logp_whose_graph_was_made_before(x, y):
    mean = pt.as_tensor(x).mean()

    def logp(value, m):
        return pm.logp(pt.exp(pm.Normal.dist(m - mean, 1.0, shape=N)), pt.exp(value))

    pm.CustomDist("y", pm.Normal("m"), logp=logp, observed=y)


@leak("inner graph")
def prior_whose_closure_is_simplified_away(x, y):
    def logp(value):
        return pm.logp(pt.exp(pm.Normal.dist(0.0, 1e-6) + pt.as_tensor(x).mean()), value)

    normal(pm.CustomDist("m", logp=logp, support_point=lambda *_: pt.as_tensor(1.0)), y)


@leak("inner graph")
def support_point_whose_closure_is_simplified_away(x, y):
    def support_point(rv, size, *parameters):
        return pm.logp(pt.exp(pm.Normal.dist(0.0, 1.0) + pt.as_tensor(x).mean()), 1.5)

    normal(pm.CustomDist("m", logp=lambda value: -(value**2), support_point=support_point), y)


@leak("read as numbers")
def custom_logp_that_stops_at_a_record(x, y):
    def logp(value, m):
        if value.eval().min() < 0:
            raise ValueError("negative")
        return -0.5 * (value - m) ** 2

    pm.CustomDist("y", pm.Normal("m") * x, logp=logp, observed=y)


@leak("read as numbers")
def custom_logp_scaled_by_data(x, y):
    def logp(value, m, x):
        return pm.logp(pm.Normal.dist(m * x, x.get_value().std()), value)

    pm.CustomDist("y", pm.Normal("m"), pm.Data("x", x), logp=logp, observed=y)


@leak("read as numbers")
def prior_whose_closure_gets_values(x, y):
    data = pm.Data("data", x)

    def logp(value):
        return pm.logp(pm.Normal.dist(data.get_value().mean(), 1.0), value)

    normal(pm.CustomDist("m", logp=logp) * data, y)


@leak("read as numbers")
def prior_whose_closure_compiles(x, y):
    data = pm.Data("data", x)

    def logp(value):
        return pm.logp(pm.Normal.dist(pytensor.function([], data.mean())(), 1.0), value)

    normal(pm.CustomDist("m", logp=logp) * data, y)


@leak("read as numbers")
def prior_whose_closure_has_a_copy(x, y):
    """A copy of a shared variable has the same array."""
    data = pm.Data("data", x)

    def logp(value):
        return pm.logp(pm.Normal.dist(data.clone().get_value().mean(), 1.0), value)

    normal(pm.CustomDist("m", logp=logp) * data, y)


@leak("read as numbers")
def transform_whose_scale_is_a_maximum(x, y):
    data = pm.Data("data", x)

    class Scaled(transforms.LogTransform):
        name = "scaled"

        def backward(self, value, *inputs):
            return value * data.max().eval()

        def forward(self, value, *inputs):
            return value / data.max().eval()

        def log_jac_det(self, value, *inputs):
            return pt.zeros_like(value)

    normal(pm.Normal("m", transform=Scaled()) * data, y)


@leak("mask")
def length_by_a_mask_in_a_component(treated, x, y):
    """Its type has the number of records that a constant takes."""
    law = pm.Normal.dist(pm.Normal("m") * pt.as_tensor(x)[pt.as_tensor(treated)].shape[0] * pt.ones(N), 1.0)
    pm.Censored("y", law, lower=None, upper=50.0, observed=y)


@leak("mask")
def length_by_a_mask_in_a_mixture(treated, x, y):
    number = pt.as_tensor(x)[pt.as_tensor(treated)].shape[0]
    components = [pm.Normal.dist(pm.Normal("m") * number, 1.0, shape=N), pm.Normal.dist(0, 5.0, shape=N)]
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), components, observed=y)


@leak("reduction")
def length_of_a_draw_by_a_mask(treated, y):
    normal(pm.Normal("m") * pm.Normal.dist(0, 1, size=pt.as_tensor(treated).sum()).shape[0], y)


@leak("mask")
def length_of_a_draw_of_masked_records(treated, x, y):
    normal(pm.Normal("m") * pm.Normal.dist(pt.as_tensor(x)[pt.as_tensor(treated)], 1).shape[0], y)


@leak("inner graph")
def custom_logp_whose_closure_is_an_array_of_the_model(x, y):
    """Which stands behind a shared variable elsewhere."""
    column = pt.as_tensor(x)

    def logp(value, m):
        return -0.5 * (value - m - column.mean()) ** 2

    pm.CustomDist("y", pm.Normal("m") * column, logp=logp, observed=y)


@leak("inner graph")
def custom_logp_that_simplifies_an_array_of_the_model(x, y):
    column = pt.as_tensor(x)

    def logp(value, m):
        return pm.logp(pt.exp(pm.Normal.dist(m - column.mean(), 1.0, shape=N)), pt.exp(value))

    pm.CustomDist("y", pm.Normal("m") * column, logp=logp, observed=y)


@leak("inner graph")
def prior_that_simplifies_an_array_of_the_model(x, y):
    column = pt.as_tensor(x)

    def logp(value):
        return pm.logp(pt.exp(pm.Normal.dist(column.mean(), 1.0)), pt.exp(value))

    normal(pm.CustomDist("m", logp=logp, support_point=lambda *_: pt.as_tensor(1.0)) * column, y)


@leak("inner graph")
def custom_logp_with_an_array_in_an_op_that_was_compiled(x, y):
    """A compiled Op is simplified without a node that reads the array."""
    given = pt.dscalar()
    mean = OpFromGraph([given], [given * pt.as_tensor(x).mean()])(pt.constant(1.0, dtype="float64"))
    mean.eval()

    def logp(value, m):
        return pm.logp(pt.exp(pm.Normal.dist(m - mean, 1.0, shape=N)), pt.exp(value))

    pm.CustomDist("y", pm.Normal("m"), logp=logp, observed=y)


@leak("inner graph or view")
def custom_logp_that_simplifies_a_part_of_the_records(x, y):
    column = pt.as_tensor(x)

    def logp(value, m):
        return pm.logp(pt.exp(pm.Normal.dist(m - pt.as_tensor(x[5:9]).mean(), 1.0, shape=N)), pt.exp(value))

    pm.CustomDist("y", pm.Normal("m") * column, logp=logp, observed=y)


@leak("reduction")
def custom_logp_of_value(y):
    def logp(value, m):
        return -0.5 * (value - m) ** 2 / value.var()

    pm.CustomDist("y", pm.Normal("m"), logp=logp, observed=y)


@leak("inner graph")
def custom_dist_with_closure(x, y):
    def dist(mu, size):
        return pm.Normal.dist(mu, 1, size=size) + pt.max(x)

    pm.CustomDist("y", pm.Normal("m"), dist=dist, observed=y)


@leak("reduction")
def truncated_at_largest(y):
    pm.Truncated("y", pm.Normal.dist(pm.Normal("m"), 1.0), lower=-10, upper=pt.max(y), observed=y)


@leak("reduction")
def censored_at_largest(pos):
    dist = pm.Weibull.dist(1.5, pm.HalfNormal("b"))
    pm.Censored("y", dist, lower=None, upper=pt.max(pos), observed=pos)


@leak("reduction")
def mixture_component_of_data(y):
    components = [pm.Normal.dist(pm.Normal("m"), 1.0), pm.Normal.dist(pt.mean(y), 5.0)]
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), components, observed=y)


@leak("reduction")
def summed_custom_likelihood(x, y):
    """The value of all rows in every row."""
    pm.CustomDist("y", pm.Normal("b") * x, logp=lambda v, m: v * 0 - pt.sum((v - m) ** 2), observed=y)


@leak("reduction")
def mean_through_observed_variable(y, y2):
    first = pm.Normal("y", pm.Normal("a"), 1.0, observed=y)
    pm.Normal("y2", pm.Normal("b") * first.mean(), 1.0, observed=y2)


# sweeps, sorts


@leak("sweep")
def cumulative_sum(x, y):
    normal(pm.Normal("b") * pt.cumsum(x), y)


@leak("sweep")
def cumulative_product(unit, y):
    normal(pm.Normal("b") * pt.cumprod(unit), y)


@leak("sweep")
def cumulative_in_matrix(X, y):
    normal(pt.dot(pt.cumsum(X, axis=0), slopes()), y)


@leak("sweep")
def sorted_records(x, y):
    normal(pm.Normal("b") * pt.sort(pt.constant(x)), y)


@leak("sweep")
def ranks(x, y):
    normal(pm.Normal("b") * pt.argsort(pt.argsort(pt.constant(x))), y)


@leak("sweep")
def median_of_records(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * (x - pt.median(x)), y)


@leak("sweep")
def quantile_of_records(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * (x > pt.sort(x)[N // 2]), y)


@leak("sweep")
def searched_in_records(x, z, y):
    normal(pm.Normal("b") * pt.searchsorted(pt.sort(pt.constant(x)), pt.constant(z)), y)


@leak("slice")
def differences(x, y):
    normal(pm.Normal("b") * pt.concatenate([[0.0], pt.diff(pt.constant(x))]), y)


@leak("slice")
def lagged_by_hand(y):
    data = pm.Data("data", y)
    normal(pt.concatenate([[0.0], pm.Normal("rho") * data[:-1]]), data)


@leak("slice")
def reversed_records(x, y):
    normal(pm.Normal("b") * pt.constant(x)[::-1], y)


@leak("slice")
def rolled(x, y):
    normal(pm.Normal("b") * pt.roll(pt.constant(x), 1), y)


@leak("slice")
def difference_to_first(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * (x - x[0]), y)


@leak("slice")
def difference_to_last(X, y):
    x = pt.constant(X)
    normal((x - x[-1]) @ slopes(), y)


@leak("slice")
def same_group_as_first(g, y):
    g = pt.constant(g)
    normal(pm.Normal("b") * pt.eq(g, g[0]), y)


@leak("slice")
def spatial_lag(XT, y):
    x = pt.constant(XT)
    normal(pt.dot(slopes(), pt.concatenate([x[:, 1:], x[:, :1]], axis=1)), y)


@leak("slice")
def first_of_three_axes(T, y):
    x = pt.constant(T)
    normal((x - x[:1]).sum(axis=(1, 2)) * pm.Normal("b"), y)


@leak("slice")
def reversed_observed_variable(y, y2):
    first = pm.Normal("y", pm.Normal("a"), 1.0, observed=y)
    pm.Normal("y2", pm.Normal("b") * first[::-1], 1.0, observed=y2)


@leak("slice")
def step_of_two(x, y):
    pairs = pt.repeat(pt.constant(x)[::2], 2)[:N]
    normal(pm.Normal("b") * pairs, y)


# masks, gathers, scatters


@leak("mask")
def mean_of_masked(x, treated, y):
    normal(pm.Normal("b") * x - pt.constant(x)[pt.constant(treated)].mean(), y)


@leak("mask")
def number_of_masked(x, treated, y):
    normal(pm.Normal("b") * x, y, sigma=1.0 + pt.constant(x)[pt.constant(treated)].shape[0])


@leak("mask")
def array_masked_by_rows(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * x + x[x > 0].sum(), y)


@leak("gather")
def permuted_by_array(x, h, y):
    """An index array of records, that points to records."""
    normal(pm.Normal("b") * pt.constant(x)[h], y)


@leak("gather")
def partner_of_each(X, h, y):
    x = pm.Data("x", X)
    normal((x - x[h]) @ slopes(), y)


@leak("gather")
def taken(x, k, y):
    normal(pm.Normal("b") * pt.take(pt.constant(x), k), y)


@leak("gather")
def taken_along_records(X, k, y):
    chosen = pt.take_along_axis(pt.constant(X), pt.constant(k)[:, None], axis=0)[:, 0]
    normal(pm.Normal("b") * chosen, y)


@leak("gather")
def neighbour_by_arange(x, y):
    normal(pm.Normal("b") * pt.constant(x)[(pt.arange(N) + 1) % N], y)


@leak("gather")
def previous_by_arange(X, k, y):
    """Index -1 is the last record."""
    normal(pm.Normal("b") * pt.constant(X)[pt.arange(N) - 1, k], y)


@leak("gather")
def reversed_by_arange(X, k, y):
    normal(pm.Normal("b") * pt.constant(X)[pt.arange(N)[::-1], k], y)


@leak("gather")
def arange_of_two_steps(X, k, y):
    normal(pm.Normal("b") * pt.constant(X)[pt.arange(0, 2 * N, 2) // 2, k][pt.arange(N - 1, -1, -1)], y)


@leak("gather")
def first_record_by_zeros(X, k, y):
    normal(pm.Normal("b") * pt.constant(X)[pt.zeros(N, dtype="int64"), k], y)


@leak("gather")
def arange_from_one_on_padded(X, k, y):
    x = pt.concatenate([pt.zeros((1, 3)), pt.constant(X)])
    normal(pm.Normal("b") * x[pt.arange(N), k], y)


@leak("gather")
def effect_of_next_person(g, y):
    normal(pm.Normal("a", shape=GROUPS)[pt.roll(pt.constant(g), 1)], y)


@leak("gather")
def index_is_a_count(g, y):
    """The parameter that a row reads depends on how many rows there are of a kind."""
    which = pt.eq(pt.constant(g), 0).sum() % GROUPS
    normal(pm.Normal("a", shape=GROUPS)[which] + pt.zeros(N), y)


@leak("gather")
def table_of_records_at_public_rows(X, t, y):
    """A table of group means that is really the first records."""
    table = pt.constant(X)[pt.arange(TIMES)]
    normal(table[t] @ slopes(), y)


@leak("scatter")
def group_sizes(g, y):
    sizes = pt.zeros(GROUPS)[pt.constant(g)].inc(1.0)
    normal(pm.Normal("b") * sizes[g], y)


@leak("scatter")
def group_means_by_scatter(g, x, y):
    sums = pt.zeros(GROUPS)[pt.constant(g)].inc(x)
    normal(pm.Normal("b") * (x - sums[g]), y)


@leak("scatter")
def first_record_set(x, y):
    """Harmless as such: another person's value is not read, but the record at 0 is by position."""
    x = pt.constant(x)
    normal(pm.Normal("b") * pt.set_subtensor(x[1:], x[:-1]), y)


@leak("scatter")
def record_written_elsewhere(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * pt.inc_subtensor(x[0], x[1]), y)


@leak("scatter")
def masked_set(x, z, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * pt.set_subtensor(x[x > 0], pt.max(z)), y)


@leak("scatter")
def bincount_of_records(g, y):
    normal(pm.Normal("b") * pt.bincount(pt.constant(g), minlength=GROUPS)[g], y)


# shared variables that change when they are read


def changing(start, to):
    shared = pytensor.shared(start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        shared.default_update = to(shared)
    return shared


@leak("changing")
def potential_of_an_updated_sum(x, y):
    """PyTensor computes the sum whenever it evaluates the Potential."""
    total = changing(0.0, lambda s: pytensor.shared(x).mean() + 0 * s)
    pm.Potential("p", pt.switch(pt.gt(total, 0), 1e15, -1e15) * pm.Normal("z"))
    normal(pm.Normal("b"), y)


@leak("changing")
def row_of_an_updated_sum(x, y):
    """All checks are over when it begins."""
    count = changing(0, lambda c: c + 1)
    total = changing(0.0, lambda s: pt.switch(count > 12, pytensor.shared(x).sum(), 0.0 * s))
    normal(pm.Normal("b") + total + 0 * count, y)


@leak("changing")
def deterministic_of_an_updated_sum(x, y):
    b = pm.Normal("b")
    pm.Deterministic("d", b + changing(0.0, lambda s: pytensor.shared(x).sum()))
    normal(b, y)


@leak("changing")
def updated_sum_in_a_density(x, y):
    """It is seen when the density is derived."""
    total = changing(0.0, lambda s: pytensor.shared(x).sum())
    b = pm.CustomDist("b", 0.0, logp=lambda value, mu: -((value - mu - total) ** 2))
    normal(b, y)


# contractions and linear algebra


@leak("contraction")
def segment_means(g, x, y):
    one_hot = pt.cast(pt.eq(pt.constant(g)[:, None], pt.arange(GROUPS)), "float64")
    normal(pm.Normal("b") * pt.dot(one_hot, pt.dot(one_hot.T, x)), y)


@leak("contraction")
def inner_product(x, z, y):
    normal(pm.Normal("b") * x, y, sigma=1 + pt.dot(x, pt.constant(z)) ** 2)


@leak("contraction")
def gram_matrix(X, y):
    x = pt.constant(X)
    normal(pt.dot(x @ (x.T @ x), slopes()), y)


@leak("contraction")
def einsum_over_records(X, y):
    x = pt.constant(X)
    normal(pt.einsum("ni,nj,j->i", x, x, slopes())[0] + pt.zeros(N), y)


@leak("contraction")
def tensordot_over_records(X, y):
    normal(pt.tensordot(X, pt.constant(X), axes=[[0], [0]]).sum() * pm.Normal("b") + pt.zeros(N), y)


@leak("contraction")
def average_of_all_by_matrix(x, y):
    normal(pm.Normal("b") * pt.dot(pt.ones((N, N)) / N, x), y)


@leak("contraction")
def batched_gram(T, y):
    x = pt.constant(T).dimshuffle(1, 0, 2)
    normal(pt.matmul(x, x.dimshuffle(0, 2, 1)).sum(axis=(0, 2)) * pm.Normal("b"), y)


@leak("contraction")
def parameter_per_record_contracted(x, y):
    w = pm.Normal("w", shape=2)
    normal(pt.dot(pt.outer(pt.constant(x), w).T, x)[0] + pt.zeros(N), y)


@leak("linear algebra")
def hat_matrix(X, y):
    x = pt.constant(X)
    normal(pm.Normal("b") * (x @ pt.linalg.solve(x.T @ x, x.T @ y)), y)


@leak("linear algebra")
def whitened_by_cholesky(X, y):
    x = pt.constant(X)
    white = pt.linalg.solve_triangular(pt.linalg.cholesky(x.T @ x), x.T, lower=True).T
    normal(white @ slopes(), y)


@leak("linear algebra")
def qr_reparametrised(X, y):
    q, _r = pt.linalg.qr(pt.constant(X), mode="economic")
    normal(q @ slopes(), y)


@leak("linear algebra")
def principal_components(X, y):
    u, _s, _v = pt.linalg.svd(pt.constant(X), full_matrices=False)
    normal(u @ slopes(), y)


@leak("linear algebra")
def determinant(X, y):
    x = pt.constant(X)
    normal(x @ slopes(), y, sigma=1 + pt.abs(pt.linalg.det(x.T @ x)))


@leak("linear algebra")
def kernel_regression(x, y):
    x = pt.constant(x)
    K = pt.exp(-((x[:, None] - x[None, :]) ** 2) / pm.HalfNormal("ls"))
    normal(pt.dot(K, pt.constant(y)) / K.sum(axis=1), y)


@leak("linear algebra")
def pairwise_differences(y):
    data = pm.Data("data", y)
    normal(pm.Normal("b") * (data[:, None] - data[None, :]).mean(axis=1), data)


@leak("linear algebra")
def outer_and_diagonal(x, z, y):
    normal(pm.Normal("b") * pt.diag(pt.outer(pt.constant(x), pt.constant(z)[::-1])), y)


@leak("linear algebra")
def fourier_transform(x, y):
    spectrum = rfft(pt.constant(x)[None, :])
    normal(pm.Normal("b") * spectrum[0].sum() + pt.zeros(N), y)


@leak("linear algebra")
def convolved(x, y):
    smooth = pt.signal.convolve1d(pt.constant(x), pt.constant(np.array([0.25, 0.5, 0.25])), mode="same")
    normal(pm.Normal("b") * smooth, y)


# joins, reshapes, broadcasts, shapes


@leak("join")
def joined_records(x, z, y):
    normal(pm.Normal("b") * pt.concatenate([pt.constant(x)[:20], pt.constant(z)[20:]]), y)


@leak("join")
def joined_and_cut(x, z, y):
    normal(pm.Normal("b") * pt.concatenate([x, pt.constant(z)])[10 : N + 10], y)


@leak("join")
def padded_and_cut(x, y):
    normal(pm.Normal("b") * pt.concatenate([[0.0], pt.constant(x)])[:N], y)


@leak("join")
def split_and_swapped(x, y):
    first, second = pt.split(pt.constant(x), [20, 23], n_splits=2)
    normal(pm.Normal("b") * pt.concatenate([second, first]), y)


@leak("reshape")
def reshape_of_transposed(XT, y):
    """(3, n) read as (n, 3)."""
    normal(pt.constant(XT).reshape((N, 3)) @ slopes(), y)


@leak("reshape")
def transposed_then_reshaped(X, y):
    normal(pt.constant(X).T.reshape((N, 3)) @ slopes(), y)


@leak("reshape")
def folded(Y, x, y):
    normal(pm.Normal("b") * pt.constant(Y).reshape((2, N))[0] * x, y)


@leak("reshape")
def folded_by_data_shape(Y, y):
    data = pm.Data("Y", Y)
    normal(pm.Normal("b") * data.reshape((-1, data.shape[0])).sum(axis=0), y)


@leak("reshape")
def raveled(Y, y):
    normal(pm.Normal("b") * pt.constant(Y).ravel()[:N], y)


@leak("broadcast")
def tiled(Y, y):
    normal(pm.Normal("b") * pt.tile(pt.constant(Y)[:, 0], 2)[1 : N + 1], y)


@leak("broadcast")
def repeated(x, y):
    normal(pm.Normal("b") * pt.repeat(pt.constant(x), 2)[:N], y)


@leak("broadcast")
def every_row_all_records(x, y):
    square = pt.broadcast_to(pt.constant(x), (N, N))
    normal(pm.Normal("b") * square.sum(axis=1), y)


@leak("broadcast")
def first_record_for_everybody(x, y):
    normal(pm.Normal("b") * pt.full((N,), pt.constant(x)[0]), y)


@leak("broadcast")
def column_plus_row(x, y):
    x = pt.constant(x)
    normal(pm.Normal("b") * (x[:, None] + x).max(axis=1), y)


@leak("shape from values")
def number_of_groups(g, y):
    levels = pt.unique(pt.constant(g)).shape[0]
    normal(pm.Normal("b") * levels + pt.zeros(N), y)


@leak("shape from values")
def number_of_flags(treated, y):
    normal(pm.Normal("b") * pt.nonzero(pt.constant(treated))[0].shape[0] + pt.zeros(N), y)


@leak("shape from values")
def length_of_largest(count, y):
    normal(pm.Normal("b") * pt.zeros(pt.max(count)).shape[0] + pt.zeros(N), y)


@leak("shape from values")
def range_of_one_record(count, y):
    normal(pm.Normal("b") * pt.arange(pt.constant(count)[0]).sum() + pt.zeros(N), y)


# conditions and scans


@leak("condition")
def lazy_branch(x, treated, y):
    b = pm.Normal("b", shape=2)
    normal(ifelse(pt.any(treated), b[0], b[1]) * x, y)


@leak("condition")
def branch_of_first_record(x, treated, y):
    normal(ifelse(pt.constant(treated)[0], pt.constant(x), -pt.constant(x)) * pm.Normal("b"), y)


@leak("condition")
def asserted_of_data(x, y):
    """An error for everybody, because of one."""
    from pytensor.raise_op import Assert

    x = pt.constant(x)
    normal(Assert("too large")(x, pt.all(x < 10)).sum() * pm.Normal("b") + x, y)


@leak("scan")
def exponential_smoothing(x, y):
    level = scan(
        lambda x, s, a: a * x + (1 - a) * s,
        sequences=[pt.constant(x)],
        outputs_info=[pt.zeros(())],
        non_sequences=[pm.Beta("a", 1, 1)],
        return_updates=False,
    )
    normal(level, y)


@leak("inner graph")
def scan_that_reads_the_last_record(x, y):
    mu = scan(
        lambda i, x, b: b * x[i - 1],
        sequences=[pt.arange(N)],
        non_sequences=[pt.constant(x), pm.Normal("b")],
        return_updates=False,
    )
    normal(mu, y)


@leak("scan")
def scan_with_mean_inside(T, y):
    path = scan(
        lambda x, s: s + x.sum(axis=1) - x.mean(),
        sequences=[pt.constant(T).dimshuffle(2, 0, 1)],
        outputs_info=[pt.zeros(N)],
        return_updates=False,
    )
    normal(path[-1] * pm.Normal("b"), y)


@leak("inner graph")
def scan_that_couples_after_three_steps(x, y):
    """Each state is read in the next step by another; only the last one is a sum."""
    x = pt.constant(x)
    states = scan(
        lambda u, v, w: (v, w, pt.sum(x) + pt.zeros(N)),
        outputs_info=[pt.zeros(N), pt.zeros(N), pt.zeros(N)],
        n_steps=4,
        return_updates=False,
    )
    normal(states[0][-1] * pm.Normal("b"), y)


@leak("scan")
def scan_state_is_shifted(x, y):
    path = scan(
        lambda s: pt.concatenate([s[1:], s[:1]]),
        outputs_info=[pt.constant(x)],
        n_steps=3,
        return_updates=False,
    )
    normal(path[-1] * pm.Normal("b"), y)


@leak("inner graph")
def scan_until_data(x, y):
    x = pt.constant(x)
    path = scan(
        lambda s: (s + 1.0, until(pt.all(s > x))),
        outputs_info=[pt.zeros(())],
        n_steps=50,
        return_updates=False,
    )
    normal(path[-1] * pm.Normal("b") + pt.zeros(N), y)


@leak("scan")
def scan_as_long_as_data(count, y):
    path = scan(
        lambda s: s + 1.0, outputs_info=[pt.zeros(())], n_steps=pt.max(count) + 1, return_updates=False
    )
    normal(path[-1] * pm.Normal("b") + pt.zeros(N), y)


@leak("reduction")
def reduction_in_inner_graph(x, y):
    u, v = pt.vector(), pt.scalar()
    normal(OpFromGraph([u, v], [v * (u - u.mean())])(pt.constant(x), pm.Normal("b")), y)


@leak("inner graph")
def constant_in_inner_graph(x, y):
    v = pt.scalar()
    normal(OpFromGraph([v], [v * pt.constant(x).mean()])(pm.Normal("b")) + pt.zeros(N), y)


@leak("slice")
def inner_graph_in_inner_graph(x, y):
    u, v, w = pt.vector(), pt.vector(), pt.scalar()
    inner = OpFromGraph([u], [u[::-1]])
    normal(OpFromGraph([v, w], [w * inner(v)])(pt.constant(x), pm.Normal("b")), y)


@leak("inner graph")
def reduction_in_scan_constant(x, z, y):
    """Data that are not an input of the scan."""
    z = pt.constant(z)
    path = scan(
        lambda s: s + z.mean(), outputs_info=[pt.zeros(())], n_steps=2, return_updates=False, strict=False
    )
    normal(path[-1] * pm.Normal("b") * x, y)


# sparse


def _csr(X):
    return pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))


@leak("sparse")
def sparse_centred(X, y):
    x = _csr(X)
    means = pytensor.sparse.sp_sum(x, axis=0) / N
    b = slopes()
    normal(pytensor.sparse.dot(x, b[:, None])[:, 0] - pt.dot(means, b), y)


@leak("sparse")
def sparse_transposed(X, y):
    x = _csr(X)
    totals = pytensor.sparse.dot(x.T, pt.constant(y)[:, None])
    normal(pytensor.sparse.dot(x, totals)[:, 0] * pm.Normal("b"), y)


@leak("sparse")
def sparse_shared_total(X, y):
    x = pytensor.shared(scipy.sparse.csr_matrix(X))
    normal(pytensor.sparse.dot(x, slopes()[:, None])[:, 0] + pytensor.sparse.sp_sum(x), y)


@leak("sparse")
def sparse_stored_values(X, y):
    stored = pytensor.sparse.csm_data(_csr(X))
    normal(pm.Normal("b") * stored.sum() + pt.zeros(N), y)


@leak("sparse")
def sparse_column_slice_of_records(X, y):
    x = _csr(X)
    normal(pytensor.sparse.dot(x[:3], slopes()[:, None])[:, 0].sum() + pt.zeros(N), y)


@leak("sparse")
def sparse_gram(X, y):
    x = _csr(X)
    K = pytensor.sparse.dense_from_sparse(pytensor.sparse.structured_dot(x, x.T))
    normal(pm.Normal("b") * K.sum(axis=1), y)


# black boxes


@leak("unknown Op")
def closure_of_data(y):
    @wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
    def level(scale):
        return np.asarray(scale * y.mean())

    normal(level(pm.Normal("m")), y)


@leak("unknown Op")
def wrapped_python_of_rows(x, y):
    @wrap_py(itypes=[pt.dvector, pt.dscalar], otypes=[pt.dvector])
    def standardised(x, b):
        return b * (x - x.mean())

    normal(standardised(pt.constant(x), pm.Normal("b")), y)


class _OfRows(Op):
    """Something for which there is no rule."""

    __props__ = ()

    def make_node(self, x):
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] - inputs[0].mean()


@leak("unknown Op")
def op_without_rule(x, y):
    normal(pm.Normal("b") * _OfRows()(pt.constant(x)), y)


class _Holds(Op):
    """An Op that carries its data along."""

    __props__ = ()

    def __init__(self, data):
        self.data = data

    def make_node(self, b):
        b = pt.as_tensor(b)
        return Apply(self, [b], [b.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * self.data.sum())


@leak("unknown Op")
def op_with_data_of_its_own(x, y):
    normal(_Holds(x)(pm.Normal("b")) + pt.zeros(N), y)


@leak("unknown Op")
def custom_logp_black_box(x, y):
    @wrap_py(itypes=[pt.dvector, pt.dvector], otypes=[pt.dvector])
    def density(value, mu):
        return -((value - mu) ** 2).sum() * np.ones_like(value)

    pm.CustomDist("y", pm.Normal("b") * x, logp=density, observed=y)


# observed values


@leak("observed")
def observed_centred(x, y):
    data = pm.Data("data", y)
    normal(pm.Normal("b") * x, data - data.mean())


@leak("observed")
def observed_reversed(x, y):
    normal(pm.Normal("b") * x, pm.Data("data", y)[::-1])


@leak("observed")
def observed_standardised_constant(x, y):
    data = pt.constant(y)
    normal(pm.Normal("b") * x, data / data.std())


@leak("observed")
def observed_sorted(x, y):
    normal(pm.Normal("b") * x, pt.sort(pm.Data("data", y)))


@leak("observed")
def observed_residual(X, y):
    x, data = pm.Data("x", X), pm.Data("data", y)
    normal(pm.Normal("m"), data - x @ pt.linalg.solve(x.T @ x, x.T @ data))


@leak("one number")
def autoregression(y):
    pm.AR("y", rho=pm.Normal("rho", shape=1), sigma=1.0, init_dist=pm.Normal.dist(0, 1), observed=y)


@leak("one number")
def random_walk(y):
    sigma = pm.HalfNormal("sigma")
    pm.GaussianRandomWalk("y", sigma=sigma, init_dist=pm.Normal.dist(0, 1), observed=y)


@leak("one number")
def gaussian_process(x, y):
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, pm.HalfNormal("length")))
    gp.marginal_likelihood("y", X=x[:, None], y=y, sigma=0.1)


@leak("one number")
def joint_normal(y):
    pm.MvNormal("y", pm.Normal("m") * np.ones(N), np.eye(N), observed=y)


@leak("one number")
def one_table(yc):
    """All counts are one draw."""
    pm.Multinomial("y", n=yc.sum(), p=pm.math.softmax(pm.Normal("m") * pt.arange(N)), observed=yc)


# latent variables


@leak("latent")
def effect_of_each_record(y):
    normal(pm.Normal("z", shape=N), y)


@leak("latent")
def effect_of_each_record_but_one(y):
    z = pm.Normal("z", shape=N - 1)
    normal(pt.concatenate([[0.0], z]), y)


@leak("latent")
def effects_that_sum_to_zero(y):
    """n - 1 coordinates."""
    normal(pm.ZeroSumNormal("z", 1.0, shape=N), y)


@leak("latent")
def shares_of_records(pos):
    pm.Exponential("y", pm.Dirichlet("z", np.ones(N)) * N, observed=pos)


@leak("latent")
def effect_in_column(y):
    normal(pm.Normal("z", shape=(N, 1))[:, 0], y)


@leak("latent")
def effect_by_dims(y):
    pm.modelcontext(None).add_coord("person", np.arange(N))
    normal(pm.Normal("z", dims="person"), y)


@leak("latent")
def two_effects_each(x, y):
    z = pm.Normal("z", shape=2 * N)
    normal(z[:N] + z[N:] * x, y)


@leak("latent")
def latent_walk(y):
    normal(pm.GaussianRandomWalk("f", sigma=0.1, init_dist=pm.Normal.dist(0, 1), shape=N), y)


@leak("latent")
def latent_class(y):
    normal(pm.Normal("m", shape=2)[pm.Categorical("c", p=[0.5, 0.5], shape=N)], y)


@leak("latent gp")
def latent_gp(x, y):
    f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).prior("f", X=x[:, None], reparameterize=False)
    normal(f, y)


@leak("prior")
def measurement_error_latent(x, y):
    normal(pm.Normal("b") * pm.Normal("true", x, 0.1, shape=N), y)


@leak("missing")
def missing_values(y):
    holes = y.copy()
    holes[3] = np.nan
    normal(pm.Normal("m"), holes)


@leak("missing")
def masked_values(y):
    normal(pm.Normal("m"), np.ma.masked_array(y, np.arange(len(y)) == 3))


@leak("random")
def minibatch(x, y):
    xb, yb = pm.Minibatch(x, y, batch_size=10)
    pm.Normal("y", pm.Normal("b") * xb, 1, observed=yb, total_size=N)


@leak("random")
def simulator(y):
    pm.Simulator("y", lambda rng, m, size: rng.normal(m, size=size), pm.Normal("m"), observed=y)


@leak("random")
def jittered(x, y):
    noise = pm.Normal.dist(0, 1, shape=N)
    normal(pm.Normal("b") * (x + noise), y)


# arrays that hold the same persons at other places


@leak("shared memory")
def lagged_views(y):
    """`observed=` of a NumPy array is a copy that PyMC makes; this is not."""
    normal(pm.Normal("rho") * y[:-1], pt.constant(y[1:]))


@leak("shared memory")
def lagged_views_of_rows(X):
    normal(pt.dot(X[:-1, :2], slopes(2)) + pm.Normal("c") * X[1:, 2], X[1:, 0])


@leak("shared memory")
def initval_view_of_records(X, y):
    """The first person's values, not copied."""
    normal(pt.dot(X, pm.Normal("b", shape=3, initval=X[0])), y)


@leak("shared memory")
def records_in_a_table_view(X, t, y):
    """The first eight persons as a table by time."""
    normal(pt.constant(X[:8, 0])[t] * pm.Normal("b") + X[:, 0] * pm.Normal("c"), y)


@leak("shared memory", n=1000)
def folded_view(x, y):
    pm.Deterministic("blocks", pt.dot(x.reshape(20, 50), pm.Normal("b", shape=50)))
    normal(pm.Normal("m") * x, y)


@leak("shared memory")
def lag_of_more_than_half(X):
    """Other columns, more than half of the records apart: some persons still stand in two."""
    normal(X[:-15, 0] * pm.Normal("rho"), pt.constant(X[15:, 1]))


@leak("shared memory")
def end_of_a_column_and_begin_of_the_next(X):
    """A flat view of a table by columns: rows 0 to 9 beside 38 to 42 and 0 to 4."""
    flat = np.asfortranarray(X).ravel(order="K")
    pm.Normal("y", pm.Normal("m") * flat[N - 5 : N + 5], 1.0, observed=pt.constant(flat[:10]))


@leak("shared memory")
def reversed_view(x, y):
    """The same array, backwards, beside itself."""
    normal(pm.Normal("a") * x + pm.Normal("b") * x[::-1], y)


@leak("shared memory")
def windows(y):
    past = np.lib.stride_tricks.sliding_window_view(y, 4)
    normal(pt.dot(past[:, :3], slopes()), y[3:])


@leak("shared memory")
def first_record_in_every_row(x, y):
    """A view of n entries, all of them one person's."""
    normal(pm.Normal("b") * np.broadcast_to(x[:1], x.shape), y)


@leak("shared memory")
def records_in_a_prior_view(X, y):
    """A small table that is a part of the records."""
    normal(pt.dot(X, pm.Normal("b", X[0], 1.0, shape=3)), y)


@leak("shared memory")
def records_in_a_deterministic_view(X, y):
    b = slopes()
    pm.Deterministic("first", pt.dot(X[:5], b))
    normal(pt.dot(X, b), y)


@leak("longer")
def rows_of_a_longer_table(Y, x, y):
    b = slopes(2)
    pm.Deterministic("prediction", pt.dot(np.vstack([Y, Y]), b))
    normal(pt.dot(Y, b), y)


@leak("longer")
def rows_selected_in_graph(Y, y):
    table = pm.Data("table", np.vstack([Y, Y]))
    normal(table[pt.arange(N)] @ slopes(2), y)


@leak("longer")
def stacked_columns(Y, y):
    """All of one column, then all of the other."""
    table = pm.Data("table", Y.ravel(order="F"))
    normal(pm.Normal("b") * table[:N], y)


@leak("ambiguous")
def square_table_of_records(x, y):
    """Distances between persons: which axis are the records?"""
    distance = np.abs(np.subtract.outer(x, x))
    normal(pm.Normal("b") * pt.constant(distance).sum(axis=1), y)


@leak("contraction")
def square_table_times_rows(x, y):
    """Spatial lag by a matrix of weights."""
    weights = np.exp(-np.abs(np.subtract.outer(x, x)))
    normal(pm.Normal("rho") * pt.dot(weights, pt.constant(y)), y)


# arrays with an entry for each person, when persons have several rows

IDS = np.repeat(np.arange(11), 4)[:N]


@leak("units", privacy_unit=IDS)
def person_array_in_likelihood(X, y):
    table = X[:11] + 0.0
    normal(((table - table.mean(0)) @ slopes())[IDS], y)


@leak("units", privacy_unit=IDS)
def person_array_in_deterministic(X, Y, y):
    pm.Deterministic("mu", (X[:11] + 0.0) @ slopes())
    normal(pt.dot(Y, slopes_named("c", 2)), y)


@leak("units", privacy_unit=IDS)
def person_array_in_prior(x, y):
    normal(pm.Normal("m", pm.Data("u", x[:11] + 0.0).mean(), 1), y)


@leak("latent", privacy_unit=IDS)
def effect_of_each_person(y):
    normal(pm.Normal("effect", shape=11)[IDS], y)


def slopes_named(name, d):
    return pm.Normal(name, 0, 1, shape=d)


# values that PyTensor itself reads: static shapes of what is made of constants, constants that it folds while
# a density is derived


def _noise_of_length(x, y, length):
    normal(pm.Normal("b") * x, y, sigma=1.0 + length)


@leak("shape from values")
def number_masked_of_public_table(x, y, treated):
    _noise_of_length(x, y, pt.ones(N)[pt.constant(treated)].shape[0])


@leak("shape from values")
def number_masked_of_matrix(X, x, y, Xb):
    _noise_of_length(x, y, pt.constant(X)[pt.constant(Xb)].shape[0])


@leak("shape from values")
def public_slice_up_to_a_record(x, y, count):
    _noise_of_length(x, y, pt.zeros(50)[: pt.constant(count)[0]].shape[0])


@leak("shape from values")
def slice_up_to_largest(x, y, count):
    _noise_of_length(x, y, pt.constant(x)[: pt.max(pt.constant(count))].shape[0])


@leak("shape from values")
def split_by_records(x, y, k):
    sizes = pt.constant(k)
    _noise_of_length(x, y, pt.split(pt.zeros(int(k.sum())), sizes, n_splits=N)[1].shape[0])


@leak("shape from values")
def reshape_by_a_record(x, y, k):
    size = pt.constant(k)[0] + 1
    _noise_of_length(x, y, pt.zeros(12).reshape((size, -1)).shape[1] + pt.zeros((size, 2)).shape[0])


@leak("shape from values")
def repeated_by_records(x, y, count):
    _noise_of_length(x, y, pt.repeat(pt.constant(x), pt.constant(count)).shape[0])


@leak("shape from values")
def mask_of_data(x, y, treated):
    _noise_of_length(x, y, pm.Data("x", x)[pm.Data("treated", treated)].shape[0])


@leak("inner graph")
def scale_in_inner_graph(x, y):
    v = pt.scalar()
    scale = OpFromGraph([v], [v * pt.std(pt.constant(x))])(pm.HalfNormal("s"))
    normal(pm.Normal("m") * x, y, sigma=scale)


@leak("inner graph")
def rows_of_a_closure_in_another_order(z, y):
    def dist(mu, size):
        return pm.Normal.dist(mu, 1, size=size) + pt.sort(pt.constant(z))

    pm.CustomDist("y", pm.Normal("m"), dist=dist, observed=y)


@leak("inner graph")
def scale_of_a_closure(x, y):
    def dist(mu, size):
        return pm.Normal.dist(mu, pt.std(pt.constant(x)), size=size)

    pm.CustomDist("y", pm.Normal("m"), dist=dist, observed=y)


@leak("inner graph")
def closure_in_a_mixture(x, y):
    def dist(mu, size):
        return pm.Normal.dist(mu, 1, size=size) + pt.max(pt.constant(x))

    component = pm.CustomDist.dist(pm.Normal("m"), dist=dist)
    pm.Mixture("y", [0.5, 0.5], [component, pm.Normal.dist(0, 1)], observed=y)


@leak("inner graph")
def closure_in_a_censored(x, y):
    def dist(mu, size):
        return pm.Normal.dist(mu, 1, size=size) + pt.max(pt.constant(x))

    pm.Censored("y", pm.CustomDist.dist(pm.Normal("m"), dist=dist), lower=-5, upper=5, observed=y)


@leak("inner graph")
def closure_in_a_prior_that_starts_at_zero(x, y):
    """Neither the initial value nor the random graph shows it, only the density."""

    def dist(mu, size):
        return pm.Normal.dist(mu, 1, size=size) * pt.std(pt.constant(x))

    def support_point(rv, size, mu):
        return pt.zeros(())

    normal(pm.CustomDist("m", 0.0, dist=dist, support_point=support_point) * x, y)


@leak("inner graph or view")
def part_of_records_in_inner_graph(x, y):
    """Five of the records, not copied, where nobody looks."""
    v = pt.scalar()
    b = pm.Normal("b")
    pm.Deterministic("level", OpFromGraph([v], [v * pt.constant(x[:5]).mean()])(b))
    normal(b * x, y)


@leak("unknown Op")
def scalar_op_with_data_of_its_own(x, y):
    import pytensor.scalar as ps
    from pytensor.tensor.elemwise import Elemwise

    class Holds(ps.UnaryScalarOp):
        def impl(self, a):
            return a * float(x.sum())

    normal(Elemwise(Holds(ps.upgrade_to_float, name="holds"))(pm.Normal("m")) + pt.zeros(N), y)


@leak("unknown Op")
def scalar_op_in_a_composite(x, y):
    import pytensor.scalar as ps
    from pytensor.tensor.elemwise import Elemwise

    class Holds(ps.UnaryScalarOp):
        def impl(self, a):
            return a * float(x.sum())

    a = ps.float64("a")
    composite = ps.Composite([a], [Holds(ps.upgrade_to_float, name="holds")(a) + a])
    normal(Elemwise(composite)(pm.Normal("m")) + pt.zeros(N), y)


@leak("ambiguous")
def square_table_by_both_axes(x, y):
    """One array in two constants: the records cannot be on one axis here and on the other there."""
    distance = np.abs(np.subtract.outer(x, x))
    both = pt.constant(distance).sum(axis=1) + pt.constant(distance).sum(axis=0)
    normal(pm.Normal("b") * both, y)


@leak("sparse")
def sparse_column_sums(X, y):
    totals = pytensor.sparse.dot(pt.ones((1, N)), _csr(X))
    normal((totals @ slopes())[0] + pt.zeros(N), y)


@leak("sparse")
def sparse_made_dense(X, y):
    x = pytensor.sparse.dense_from_sparse(_csr(X))
    normal((x - x.mean(axis=0)) @ slopes(), y)


@leak("sparse")
def sparse_centred_rows(X, y):
    mu = pytensor.sparse.dot(_csr(X), slopes()[:, None])[:, 0]
    normal(mu - mu.mean(), y)
