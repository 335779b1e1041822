"""A model that was read: what is private, what may leave, what is refused."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.arrays import PRIVATE, Array, Arrays
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.row_types import PUBLIC, Rows, RowType, Typing


class ReadingSettings(TypedDict, total=False):
    """Arguments of the user's that decide how a model is read."""

    exclude_deterministics: Collection[str]
    public: Collection[object]
    trusted_ops: Collection[object]
    neighboring_relation: str


class RecordSettings(ReadingSettings, total=False):
    """... and how its records are: the same for all parts."""

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
    """A model that was read. Graphs are functions of value variables and of what holds the records.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    data : Arrays
        The model's, of this table and others.
    start : dict of str to ndarray
        PyMC's initial point, by value variable.
    terms : list of Variable
        Of each observed variable: log-densities, records on the first axis, without checks.
    log_priors : list of Variable
        Of free variables and Potentials; read no record.
    conditions, stripped : list of Variable
        Checks about parameters alone: where one is false there is no density; and checks that are left out.
    roots : dict of Variable to int
        What holds the records, shared variables, and their axis of records.
    watched : list of SharedVariable
        Of the model: when one is set to another array, the model must be read again.
    released, withheld_dims : list of str
    left_out : dict of str to RowType
        Deterministics that read rows, and how; they are not released.
    arrays, variables : list
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
        """Say of observed variables that they stand for effects of persons; they hold no data."""
        said = {
            name: VariableReading(name, "integrated", "one entry a person; not released") for name in effects
        }
        self.variables = [said.get(v.name, v) if v.role == "likelihood" else v for v in self.variables]
        self.arrays = [array for array in self.arrays if array.label not in said]
        self.watched = [v for v in self.watched if v.name not in said]
        return self

    @property
    def row_types(self) -> dict[Variable, RowType]:
        """Types of what holds the records."""
        return {leaf: Rows(axis) for leaf, axis in self.roots.items()}

    def reads_others(self, outputs: Sequence[Variable], known: Collection[Variable]) -> bool:
        """Whether graphs read an array that may hold records and is none of those that are known."""
        return any(leaf not in known and self.data.is_private(leaf) for leaf in graph.data_leaves(outputs))

    def are_rows(self, outputs: Sequence[Variable], others: Collection[Variable] = ()) -> bool:
        """Whether graphs of the same arrays have one row a record, and read no other array of records.

        Others hold records as well, on their first axis.
        """
        known = self.row_types | dict.fromkeys(others, Rows(0))
        types = self.typing.again()(outputs, known)
        return not self.reads_others(outputs, known) and all(types[v] == Rows(0) for v in outputs)

    def generative(self) -> tuple[list[Variable], list[Variable], dict[Variable, RowType]]:
        """Observed and free random variables, and types of all that is between them."""
        observed, free = list(self.opaque.observed.values()), list(self.opaque.free.values())
        sources: dict[Variable, RowType] = dict.fromkeys(free, PUBLIC)
        return observed, free, self.typing.again()(observed, sources | self.row_types)

    @property
    def public_arrays(self) -> list[Array]:
        """Arrays that are taken, or were declared, as public."""
        return [a for a in self.arrays if a.kind != PRIVATE]
