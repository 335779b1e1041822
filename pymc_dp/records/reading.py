"""The result of reading a model: what is private, what may be released, what is refused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
from pytensor.compile import SharedVariable
from pytensor.graph import Variable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.arrays import PRIVATE, Array, Arrays
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.row_types import PUBLIC, Rows, RowType, Typing


class ReadingSettings(TypedDict, total=False):
    """The user's arguments that decide how a model is read."""

    exclude_deterministics: Collection[str]
    public: Collection[object]
    trusted_ops: Collection[object]
    neighboring_relation: str


class RecordSettings(ReadingSettings, total=False):
    """The same with settings of compilation; all parts of the records share them."""

    compile_kwargs: Mapping[str, object] | None


@dataclass(frozen=True)
class VariableReading:
    """How a variable of a model is read.

    Attributes
    ----------
    name : str
    role : {"sampled", "likelihood", "integrated", "released", "left out", "withheld", "Potential", "refused"}
    why : str
    """

    name: str
    role: str
    why: str = ""


@dataclass
class Reading:
    """A model that was read. Graphs are functions of value variables and of the roots that hold the records.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    data : Arrays
        Arrays of the model, of this table and others.
    opaque : OpaqueModel
    typing : Typing
    start : dict of str to ndarray
        PyMC's initial point, by value variable.
    terms : list of Variable
        Log-densities of each observed variable, records on the first axis, without checks.
    log_priors : list of Variable
        Log-densities of free variables and Potentials; they read no record.
    conditions, stripped : list of Variable
        Checks about parameters alone, which are kept: where one is false the density is zero; and checks that
        are left out.
    roots : dict of Variable to int
        The arrays of records (shared variables), and their axis of records.
    watched : list of SharedVariable
        Shared variables of the model: if one is set to another array, the model must be read again.
    released, withheld_dims : list of str
        Names of variables that may be released; names of dimensions that may not.
    left_out : dict of str to RowType
        Deterministics that read records, and their types; they are not released.
    arrays, variables : list
        How each array and each variable is read.
    trusted : list of str
        Ops that the user vouched for and that the model uses.
    refusals : list of ModelRefusedError
        Empty unless `inspect` collects them.
    """

    n_rows: int
    data: Arrays
    opaque: OpaqueModel
    typing: Typing
    start: dict[str, np.ndarray] = field(default_factory=dict)
    terms: list[Variable] = field(default_factory=list)
    log_priors: list[Variable] = field(default_factory=list)
    conditions: list[Variable] = field(default_factory=list)
    stripped: list[Variable] = field(default_factory=list)
    roots: dict[Variable, int] = field(default_factory=dict)
    watched: list[SharedVariable] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    left_out: dict[str, RowType] = field(default_factory=dict)
    withheld_dims: list[str] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    variables: list[VariableReading] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    refusals: list[ModelRefusedError] = field(default_factory=list)

    def integrated(self, effects: Collection[str]) -> "Reading":
        """Mark observed variables that stand for effects of persons; these hold no data."""
        said = {
            name: VariableReading(name, "integrated", "one entry a person; not released") for name in effects
        }
        self.variables = [said.get(v.name, v) if v.role == "likelihood" else v for v in self.variables]
        self.arrays = [array for array in self.arrays if array.label not in said]
        self.watched = [v for v in self.watched if v.name not in said]
        return self

    def inputs_of(self, rv: Variable) -> tuple[list[Variable], Typing]:
        """Return what a random variable is made of, typed; random variables in it count as public."""
        given, typing = self.opaque.given(rv), self.typing.again()
        random: dict[Variable, RowType] = dict.fromkeys(self.opaque.random(given), PUBLIC)
        typing(given, self.data.sources(self.opaque) | random)
        return given, typing

    @property
    def row_types(self) -> dict[Variable, RowType]:
        """Types of the arrays of records."""
        return {leaf: Rows(axis) for leaf, axis in self.roots.items()}

    def reads_others(self, outputs: Sequence[Variable], known: Collection[Variable]) -> bool:
        """Return whether graphs read an array that may hold records, other than those in `known`."""
        return any(leaf not in known and self.data.is_private(leaf) for leaf in graph.data_leaves(outputs))

    def are_rows(self, outputs: Sequence[Variable], others: Collection[Variable] = ()) -> bool:
        """Return whether graphs have one row a record, and read no other arrays of records than this model.

        Variables in `others` hold records as well, on their first axis.
        """
        known = self.row_types | dict.fromkeys(others, Rows(0))
        types = self.typing.again()(outputs, known)
        return not self.reads_others(outputs, known) and all(types[v] == Rows(0) for v in outputs)

    def generative(self) -> tuple[list[Variable], list[Variable], dict[Variable, RowType]]:
        """Return observed and free random variables, and the types of the graph between them."""
        observed, free = list(self.opaque.observed.values()), list(self.opaque.free.values())
        sources: dict[Variable, RowType] = dict.fromkeys(free, PUBLIC)
        return observed, free, self.typing.again()(observed, sources | self.row_types)

    @property
    def public_arrays(self) -> list[Array]:
        """Arrays that are taken, or were declared, as public."""
        return [a for a in self.arrays if a.kind != PRIVATE]
