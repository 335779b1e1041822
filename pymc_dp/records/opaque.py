"""A copy of a model in which PyMC and PyTensor cannot read arrays of records, only their shapes and types."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.initial_point import make_initial_point_expression
from pymc.logprob import transformed_conditional_logp
from pymc.logprob.abstract import MeasurableOp
from pymc.logprob.utils import CheckParameterValue, replace_rvs_by_values
from pytensor.compile.builders import OpFromGraph, SymbolicOp
from pytensor.graph import Apply, Constant, Variable, ancestors, clone_replace
from pytensor.graph.type import HasShape
from pytensor.sparse import SparseTensorType
from pytensor.tensor import TensorConstant
from pytensor.tensor.random.basic import CategoricalRV, MultinomialRV
from pytensor.tensor.random.op import RNGConsumerOp

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import private_number, refusals
from pymc_dp.records.brought import noting
from pymc_dp.records.graph import rebuilt, rewritten, storage
from pymc_dp.records.row_types.ops import known_shape


class OpaqueModel:
    """The graphs of a model, cloned, with constants that hold records behind shared variables.

    PyMC and PyTensor read the entries of constants when they derive and simplify log-densities: zeros are
    folded away, ones become indices. Of a shared variable they know only the type. Data are not copied,
    except for sparse matrices.

    Parameters
    ----------
    model : pymc.Model
    private : collection of Variable
        Data leaves with an axis of records.
    observed : collection of str, optional
        Observed variables whose rows are the records. Default: all.
    number : int, optional
        Number of records, where that is private.
    lengths : collection of int
        Lengths of dimensions that are private.

    Attributes
    ----------
    original : dict of Variable to Variable
        From the leaves of the clones to the model's own leaves.
    rvs : dict of Variable to Variable
        From the model's random variables to their clones.
    values : dict of Variable to Variable
        From each clone to its value variable, or to the observed values.
    number : int or None
        Number of records, where that is private.
    brought : list of Constant
        Arrays that functions of users have put into derived graphs.
    """

    def __init__(
        self,
        model: pm.Model,
        private: Collection[Variable],
        observed: Collection[str] | None = None,
        number: int | None = None,
        lengths: Collection[int] = (),
    ):
        self._model, self.number = model, number
        self._names = [rv.name for rv in model.observed_RVs if observed is None or rv.name in observed]
        hidden: dict[Variable, Variable] = {leaf: leaf for leaf in private}
        hidden |= {leaf: behind_shared(leaf, number) for leaf in private if self._is_known(leaf)}
        self._records = None if number is None else private_number.find_number(hidden, number)
        constants = (v for v in model.dim_lengths.values() if isinstance(v, TensorConstant))
        hidden |= {v: behind_shared(v) for v in constants if int(v.data) in lengths}
        self.original = {new: leaf for leaf, new in hidden.items()}
        graphs = graphs_of(model)
        if any(isinstance(leaf.type, SparseTensorType) for leaf in private):
            graphs, entries = private_number.without_sparse_products(graphs, private)
            self.original |= entries
        # All nodes that read a constant are rebuilt: a static shape may depend on the constant's entries.
        clones = iter(rewritten(graphs, self._whatever_number_of_records, dict(hidden)))
        self.rvs = {rv: next(clones) for rv in model.basic_RVs}
        self.deterministics = {d.name: next(clones) for d in model.deterministics}
        self.potentials = {p.name: next(clones) for p in model.potentials}
        outcomes = {rv: next(clones) for rv in model.observed_RVs}
        self.lengths = {name: next(clones) for name in model.dim_lengths}
        self.initial_values = {rv: next(clones) for rv in _given_initial_values(model)}
        self.values = {
            clone: outcomes[rv] if rv in outcomes else model.rvs_to_values[rv]
            for rv, clone in self.rvs.items()
        }
        self.transforms = {clone: model.rvs_to_transforms.get(rv) for rv, clone in self.rvs.items()}
        self.brought: list[Constant] = []
        self._known = [*self.rvs.values(), *self.values.values(), *outcomes.values(), *self.lengths.values()]
        self._known += [*self.deterministics.values(), *self.potentials.values()]
        self._known += self.initial_values.values()

    def _is_known(self, leaf: Variable) -> bool:
        """Return whether graphs can use an array's entries, or its type has the private number of records."""
        return isinstance(leaf, Constant) or (self.number is not None and self.number in known_shape(leaf))

    @property
    def observed(self) -> dict[str, Variable]:
        """Clones of the observed variables whose rows are the records, by name."""
        return {rv.name: self.rvs[rv] for rv in self._model.observed_RVs if rv.name in self._names}

    @property
    def free(self) -> dict[str, Variable]:
        """Clones of the free variables, by name."""
        return {rv.name: self.rvs[rv] for rv in self._model.free_RVs}

    def given(self, rv: Variable) -> list[Variable]:
        """Return the inputs of a random variable, and of its components, which the model does not declare.

        Observed variables are replaced by their values, and random streams are left out. For an observed
        variable, checks are removed that PyMC puts into a density which the model itself computes
        (`pymc.logp`): they are an ``all()`` over rows, and are removed from its own density as well.
        """
        parts = [rv, *self._components(rv)]
        inputs = [v for part in parts for v in part.owner.inputs if isinstance(v.type, HasShape)]
        found = self.with_observed([*inputs, self.values[rv]])
        return rewritten(found, _without_check) if rv in self.observed.values() else found

    def number_stays_in(self, rv: Variable) -> bool:
        """Return whether a component's type has the private number of records, as its inner graph has it."""
        shapes = (known_shape(v) for v in self._components(rv))
        return self.number is not None and any(self.number in shape for shape in shapes)

    def _components(self, rv: Variable) -> list[Variable]:
        """Return the random variables that one is made from, and that the model does not declare."""
        declared = set(self.rvs.values())
        return [v for v in self.random(rv.owner.inputs) if v not in declared]

    def random(self, outputs: Sequence[Variable]) -> list[Variable]:
        """Return the random variables in graphs."""
        nodes = [v.owner for v in ancestors(list(outputs)) if v.owner is not None]
        return [out for node in nodes if isinstance(node.op, MeasurableOp) for out in node.outputs]

    def log_densities(self) -> dict[str, Variable]:
        """Derive elementwise log-densities of all random variables, Jacobians included, by name.

        Raises
        ------
        ModelRefusedError
            A random variable has no log-density, or its function reads records as numbers.
        """
        try:
            terms = self._log_densities(len(self.rvs))
        except ModelRefusedError:
            raise
        except Exception as error:
            raise self._without_density(type(error).__name__) from None
        return {rv.name: term for rv, term in zip(self.rvs, terms, strict=True)}

    def _log_densities(self, count: int) -> list[Variable]:
        """Derive those of the first `count` random variables, which depend on none of the others."""
        rvs = list(self.rvs.values())[:count]
        with self.noting():
            return transformed_conditional_logp(
                rvs,
                rvs_to_values={rv: self.values[rv] for rv in rvs},
                rvs_to_transforms={rv: self.transforms[rv] for rv in rvs},
                jacobian=True,
            )

    def noting(self, *known: Variable) -> AbstractContextManager[None]:
        """Return a context in which arrays of users' functions are noted, and records are not read."""
        private = {*self.original, *self.original.values()}
        return noting(self.brought, [*self._known, *known], private)

    def _without_density(self, kind: str) -> ModelRefusedError:
        """Build the error for the first random variable that has no density."""
        name = "a random variable"
        for count, rv in enumerate(self.rvs, start=1):
            try:
                self._log_densities(count)
            except Exception:  # `kind` has what went wrong; this is to find out where
                role = "observed variable" if rv in self._model.observed_RVs else "the prior of"
                name = f"{role} {rv.name!r}"
                break
        return ModelRefusedError(
            f"PyMC cannot derive the log-density of {name} ({kind}).",
            "without it there is nothing to clip and to account for.",
            "use a distribution with a logp (pm.CustomDist(..., logp=...)), not a simulator. If it has one, "
            "shapes do not fit: observed values of shape (n, 1) beside a mean of shape (n,).",
        )

    def on_values(self, graphs: Sequence[Variable]) -> list[Variable]:
        """Rewrite graphs of random variables as graphs of their values."""
        with self.noting():
            return list(
                replace_rvs_by_values(
                    list(graphs), rvs_to_values=self.values, rvs_to_transforms=self.transforms
                )
            )

    def with_observed(self, graphs: Sequence[Variable]) -> list[Variable]:
        """Put the observed values in the place of observed variables; free variables stay what they are."""
        values = {self.rvs[rv]: self.values[self.rvs[rv]] for rv in self._model.observed_RVs}
        read = set(ancestors(list(graphs)))
        values = {clone: value for clone, value in values.items() if clone in read}
        return list(clone_replace(list(graphs), values, rebuild_strict=False)) if values else list(graphs)

    def start(self) -> list[Variable]:
        """Return transformed initial values of the free variables: those given, or support points.

        Raises
        ------
        ModelRefusedError
            PyMC cannot make a graph of them.
        """
        free = list(self.free.values())
        given = {
            self.rvs[rv]: self.initial_values.get(rv, self._model.rvs_to_initial_values.get(rv))
            for rv in self._model.free_RVs
        }
        # Initial values that are numbers were given by the user, not by a function of the model.
        given = {rv: pt.as_tensor(value) if np.ndim(value) else value for rv, value in given.items()}
        with self.noting(*(value for value in given.values() if isinstance(value, Variable))):
            try:
                return make_initial_point_expression(
                    free_rvs=free,
                    rvs_to_transforms=self.transforms,
                    initval_strategies=given,
                    return_transformed=True,
                )
            except ModelRefusedError:
                raise
            except Exception as error:
                why = f"its graph cannot be made ({type(error).__name__})"
                raise refusals.refuse_start("the model", why) from None

    def _whatever_number_of_records(self, node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
        """Replace a private number of records, where PyMC wrote it as a size, by the length of an array."""
        free = any(out in self._model.free_RVs for out in node.outputs)  # `reader` checks their lengths
        if self.number is None or self._records is None or free or not isinstance(node.op, RNGConsumerOp):
            return self._whatever_numbers(node, inputs)
        new = private_number.size_of_records(node, inputs, self.number, self._records)
        return self._whatever_numbers(node, new) or (None if new == inputs else rebuilt(node, new))

    def _whatever_numbers(self, node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        """Undo what PyMC did because of the entries of a constant array when the model was written.

        It leaves out censoring bounds that are infinite everywhere: here no bound is left out.

        Raises
        ------
        ModelRefusedError
            The entries may have decided the type of outcomes, whether rows of probabilities were divided by
            their sums, or a shape within a distribution.
        """
        if isinstance(node.op, CategoricalRV | MultinomialRV):
            constant = any(isinstance(self.original.get(v), Constant) for v in ancestors(inputs[-1:]))
            if constant and not self.random(inputs[-1:]):
                raise refusals.refuse_constant_probabilities()
        if not isinstance(node.op, CensoredRV):
            return self._whatever_shapes(node, inputs)
        distribution, *bounds = inner = [one.type() for one in inputs]
        for k, given in enumerate(inputs[1:]):
            whole = isinstance(self.original.get(given), Constant) and given.type.dtype.startswith("float")
            if whole and not distribution.type.dtype.startswith("float"):
                raise refusals.refuse_discrete_bound()
            if isinstance(given, Constant) and bool(np.all(given.data == (-np.inf, np.inf)[k])):
                bounds[k] = distribution
        return [CensoredRV(inputs=inner, outputs=[pt.clip(distribution, *bounds)])(*inputs)]

    def _whatever_shapes(self, node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        """Rebuild an operation with an inner graph, whose types have the shapes of its original inputs."""
        if not isinstance(node.op, OpFromGraph) or isinstance(node.op, SymbolicOp):
            return None
        return private_number.with_other_types(node, inputs, self.number, self._whatever_numbers)


def _without_check(node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
    return inputs[:1] if isinstance(node.op, CheckParameterValue) else None


def graphs_of(model: pm.Model) -> list[Variable]:
    """Return all graphs that a model declares, in a fixed order."""
    return [
        *model.basic_RVs,
        *model.deterministics,
        *model.potentials,
        *(model.rvs_to_values[rv] for rv in model.observed_RVs),
        *(pt.as_tensor(length) for length in model.dim_lengths.values()),
        *_given_initial_values(model).values(),
    ]


def _given_initial_values(model: pm.Model) -> dict[Variable, Variable]:
    return {rv: value for rv, value in model.rvs_to_initial_values.items() if isinstance(value, Variable)}


def behind_shared(leaf: Variable, number: int | None = None) -> Variable:
    """Put the array of a leaf into a new shared variable; it is not copied unless it is masked.

    The type does not have the length of axes of length `number`.
    """
    value = storage(leaf)[0]
    if isinstance(leaf.type, SparseTensorType):
        return pytensor.shared(value, borrow=True, name=leaf.name)
    shape = tuple(None if length == number else length for length in leaf.type.shape)
    return pytensor.shared(value, borrow=True, shape=shape, name=leaf.name)
