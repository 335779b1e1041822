"""Looks at all that would be published with a likelihood, and counts what may be a table of records."""

import io
import pickletools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from os import sep
from pathlib import Path
from pickle import PickleBuffer, PicklingError
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import cloudpickle
import numpy as np
import pymc
import pytensor
from pytensor.graph.basic import Apply, Variable
from scipy.sparse import issparse

from pymc_dp.errors import PrivacyError
from pymc_dp.likelihood.left_out import RANDOM, declared, forget_notes, is_index, not_compiled
from pymc_dp.records import graph
from pymc_dp.records.arrays import FEW
from pymc_dp.records.several_tables import Records

# So many numbers and names may be in all of a pickle; fewer than there are records, of more than FEW.
_MOST = 50
# Letters of a name, and of a text that says what a function or class is for, as both are counted.
_NAME, _DESCRIPTION = 10, 100
# What PyTensor and PyMC write of themselves: axes and lengths, names of types and variables, messages.
_LONGEST_LIST, _LONGEST_WORD = 16, 300
# Letters of what a refusal names.
_LONGEST_KIND = 60
_LIBRARIES = {"pytensor", "pymc"}
_LIBRARIES_AT = tuple(f"{Path(one.__path__[0])}{sep}" for one in (pytensor, pymc))
# Whole numbers below this that stand in code are positions and axes.
_SMALL = 256
# A flag of code: its first literal is its documentation (CO_HAS_DOCSTRING, from Python 3.13 on).
_DOCUMENTED = 0x4000000
# What Python notes of a class, beside what was written in it.
_OF_CLASSES = {
    *("__module__", "__qualname__", "__firstlineno__", "__static_attributes__", "__slots__", "__doc__"),
    *("__annotations__", "__match_args__", "__dataclass_fields__", "__dataclass_params__"),
}
_BUILTIN = {type(None), bool, int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset}
_ARRAYS = (np.ndarray, np.generic)
_NUMERIC = "fiubcmM"


class Inspector(cloudpickle.Pickler):
    """Pickles what would be published, and refuses it if more is in it than a public model has.

    Code goes along with a model: a function of the user's, in a prior or a transform, has a table with it if
    it refers to one, whatever it is that holds the table. So what is judged is what is written: numbers and
    text are counted over all of the pickle, and there may be no more than a few, and fewer than there are
    records. What does not count: arrays that the graphs read or that are declared as public (themselves, or
    the same numbers), code and the names in it, and what PyTensor and PyMC write of themselves: axes,
    lengths and names, of variables too. What can be imported where the pickle is read is not in it.
    PyTensor notes at each node which lines of the program made it, and with them what is written there.
    Graphs inside of Ops and transforms are the user's own: these lose their notes as well, which are of use
    in messages only.

    Parameters
    ----------
    records : RecordModel or Tables
    graphs : sequence of Variable
        The public ones.
    """

    def __init__(self, records: Records, graphs: Sequence[Variable] = ()):
        self._written = io.BytesIO()
        super().__init__(self._written)
        leaves = [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]
        values = [one for one in map(graph.leaf_value, leaves) if isinstance(one, _ARRAYS) or issparse(one)]
        lengths = {size for size in records.lengths if size > FEW}
        # An array that is as long may be of records, were the graphs wrong.
        self._public = [one for one in values if lengths.isdisjoint(one.shape)]
        self._public += map(graph.leaf_value, declared(records))
        self._public_ids = set(map(id, self._public))
        self._most = min([_MOST, *(max(size - 1, FEW) for size in records.lengths)])
        self._amount = 0.0
        self._left: list[object] = []
        self._seen: dict[int, object] = {}
        self._kinds: dict[str, None] = {}
        self._codes: set[CodeType] = set()

    def inspect(self, value: object) -> None:
        """Raise PrivacyError if there is too much in it."""
        self._left.append(value)
        try:
            while self._left:
                self.dump(self._left.pop())
        except (TypeError, AttributeError, PicklingError):  # which may quote an object
            why = "uses a lock, an open file or a connection"
            raise _refuse("has something in it that cannot be written", self._kinds, why) from None
        if self._amount + _amount(self._written.getvalue()) > self._most:
            why = "refers to a table"
            raise _refuse("holds more than a few numbers or names", self._kinds, why)

    def persistent_id(self, value: object) -> tuple[()] | None:
        """Look at an object; pickle calls this for each, before it takes it apart.

        Returns
        -------
        tuple or None
            Not None: it is not written here. What it holds is, by itself and once.
        """
        if type(value) in _BUILTIN:
            return None
        if id(value) in self._seen:
            self._amount += type(value).__name__ in self._kinds  # of a list of labels, say
            return ()
        if isinstance(value, Apply | Variable):
            forget_notes(value)
        parts = self._parts(value)
        if parts is None:
            return None
        self._seen[id(value)] = value
        self._left.append(parts)
        return ()

    def _parts(self, value: object) -> list[object] | None:
        """What an object holds that is to be counted; None: pickle is to take it apart."""
        if isinstance(value, RANDOM) or self._is_public(value):
            return []
        if isinstance(value, np.dtype):
            return [] if value.kind not in "VT" and not value.metadata else None
        if isinstance(value, ModuleType):
            return list(self.dispatch_table[ModuleType](value)[1][1:])
        if isinstance(value, FunctionType | type):
            return self._of_code(value)
        value = not_compiled(value)
        if _of_library(type(value)):
            return list(_beside_structure(value.__reduce_ex__(self.proto)))
        self._kinds[type(value).__name__] = None
        if isinstance(value, PickleBuffer):
            self._amount += 8 * memoryview(value).nbytes  # each bit may be another record's
            return []
        if type(value) is np.ndarray or isinstance(value, np.generic):
            return self._of_array(value)
        return self._of_instance(value)

    def _is_public(self, value: object) -> bool:
        """Whether it is a public array itself, or has the same numbers as one."""
        if id(value) in self._public_ids:
            return True
        numeric = issparse(value) or (type(value) is np.ndarray and value.dtype.kind in _NUMERIC)
        return numeric and any(_same(one, value) for one in self._public)

    def _of_array(self, value: np.ndarray | np.generic) -> list[object]:
        numeric = value.dtype.kind in _NUMERIC
        self._amount += value.size if numeric else 0
        return [value.dtype.metadata and dict(value.dtype.metadata), None if numeric else value.tolist()]

    def _of_instance(self, value: object) -> list[object] | None:
        """What an object of the user's has, but for names of attributes, and its class."""
        kind = type(value)
        own = kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__
        if own or kind in self.dispatch_table:
            return None
        reduction: Any = value.__reduce_ex__(self.proto)
        _, arguments, state, *items = reduction
        if any(one is not None for one in items):
            return None
        states = state if isinstance(state, tuple) else (state,)
        named = [isinstance(one, dict) and all(map(_is_word, one)) for one in states]
        return [*arguments, *(list(one.values()) if n else one for one, n in zip(states, named, strict=True))]

    def _of_code(self, value: FunctionType | type) -> list[object] | None:
        """What a function refers to and what is written in it, or what a class has; None: it is imported."""
        reduction: Any = self.reducer_override(value)
        if reduction is NotImplemented or len(reduction) == 2:
            return None
        arguments, (state, slots) = reduction[1:3]
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
            parts = [*cells, value.__defaults__, *(value.__kwdefaults__ or {}).values(), state or None]
            if _of_library(value):
                return list(_beside_structure(parts))
            parts += [*slots["__globals__"].values(), *self._literals(value.__code__, value.__doc__)]
            self._kinds[f"the function {value.__code__.co_name}"] = None
        elif _of_library(value):
            return list(_beside_structure([*arguments, state]))
        else:
            parts = [one for one in arguments if not isinstance(one, str)]  # its metaclass and bases too
            parts += [one for name, one in state.items() if name not in _OF_CLASSES]
            own = fields(value) if is_dataclass(value) else ()
            parts += [part for one in own for part in (one.default, one.default_factory, dict(one.metadata))]
        known = [value.__name__, value.__qualname__, value.__doc__, *value.__annotations__.values()]
        self._amount += sum(len(one) for one in known if isinstance(one, str)) / _DESCRIPTION
        return parts + [one for one in known if not isinstance(one, str)]

    def _literals(self, code: CodeType, documentation: str | None) -> Iterator[object]:
        """What is written in a function and in those inside of it, once: no words or small whole numbers."""
        written = () if code in self._codes else code.co_consts[1 if code.co_flags & _DOCUMENTED else 0 :]
        self._codes.add(code)
        for one in written:
            if isinstance(one, CodeType):
                yield from self._literals(one, None)
            elif isinstance(one, tuple):
                yield tuple(each for each in one if not _is_word(each))
            elif not (_is_word(one) or one == documentation or (isinstance(one, int) and abs(one) < _SMALL)):
                yield one


def _refuse(what: str, kinds: Iterable[str], why: str) -> PrivacyError:
    named = [one for one in kinds if len(one) <= _LONGEST_KIND]
    return PrivacyError(
        f"The public part of the model {what}, in one of these: "
        f"{', '.join(named) or 'attributes of its variables'}.\n"
        "  Why this is refused: what is released has the priors with it, their code too: a function of yours "
        f"(CustomDist, a transform) that {why} takes it along.\n"
        "  How to fix it: let the function read its arguments and plain numbers alone, or give the model the "
        "numbers as an array and declare it with public=."
    )


def _same(one: Any, value: Any) -> bool:
    if type(one) is not type(value) or one.shape != value.shape or one.dtype != value.dtype:
        return False
    return (one != value).nnz == 0 if issparse(one) else one.tobytes() == value.tobytes()


def _of_library(value: Any) -> bool:
    """Whether PyTensor or PyMC has written a function or class, or has made it of its own (`CustomDist`).

    Of a function its code says so: what it says of itself may be copied from another (`functools.wraps`).
    """
    if isinstance(value, FunctionType):
        return value.__code__.co_filename.startswith(_LIBRARIES_AT)
    if isinstance(value, type) and value.__module__ == "abc":
        value = value.__base__
    return str(value.__module__).split(".")[0] in _LIBRARIES


def _beside_structure(reduction: Iterable[object]) -> Iterator[object]:
    """What an object of PyTensor's has beside axes, lengths and words: from what pickle makes of it."""
    for part in reduction:
        values = [one for name, one in part.items() if name != "__doc__"] if type(part) is dict else [part]
        for value in values:
            yield from _beside_words(value)


def _beside_words(value: object) -> Iterator[object]:
    parts: Collection[object] | None = None
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
    elif isinstance(value, dict) and type(value) is dict:
        parts = [*value, *value.values()]
    elif isinstance(value, tuple | list) and type(value) in (tuple, list):
        parts = value
    if parts is not None and len(parts) <= _LONGEST_LIST:
        for one in parts:
            yield from _beside_words(one)
    elif type(value) is str:  # of a subclass, as an Enum is, there is more than the word
        yield from () if len(value) <= _LONGEST_WORD else (value,)
    elif not (value is None or value is ... or type(value) is bool or is_index(value)):
        yield value


def _is_word(value: object) -> bool:
    return type(value) is str and value.isidentifier()


def _amount(pickled: bytes) -> float:
    """How many numbers and names are written in pickles, one after the other.

    What was written before and is only referred to counts as one, but for what is imported.
    """
    stream = io.BytesIO(pickled)
    memo: list[float] = []
    amounts = [0.0]
    while stream.tell() < len(pickled):
        for opcode, argument, _ in pickletools.genops(stream):
            name, value = opcode.name, cast(Any, argument)
            if "UNICODE" in name:
                amounts.append(1 + len(value) // _NAME)
            elif "BYTE" in name:
                amounts.append(len(value))
            elif name in ("LONG1", "LONG4") or name.startswith("BININT"):
                amounts.append(1 + value.bit_length() // 64)
            elif name in ("BINFLOAT", "NEWTRUE", "NEWFALSE"):
                amounts.append(1)
            elif name in ("BINGET", "LONG_BINGET"):
                amounts.append(memo[value])
            elif name == "STACK_GLOBAL":
                amounts[-2:] = [0]
            elif name == "MEMOIZE":
                memo.append(min(amounts[-1], 1))
    return sum(amounts)
