"""A released likelihood: a normal likelihood of a public function of the parameters."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph import Variable
from pytensor.tensor import TensorLike

from pymc_dp.errors import PrivacyError
from pymc_dp.likelihood import file
from pymc_dp.likelihood.parametrization import Estimates
from pymc_dp.likelihood.public_model import Part, PublicModel, add_potential, name_numbers
from pymc_dp.likelihood.report import read_guarantee, write_report
from pymc_dp.privacy.accounting.composition import Guarantee
from pymc_dp.privacy.budget.known import LikelihoodFacts


@dataclass(frozen=True, eq=False, repr=False)
class Likelihood:
    """The result of a private release: a normal likelihood of phi, a public function of the parameters.

    Its logarithm is ``gradient' (phi - point) - (phi - point)' information (phi - point) / 2``.

    Parameters
    ----------
    coordinates : sequence of Part
        The parts of phi, in order, each with `name`, `shape`, and `expression`: a function of the free
        variables, in words. A variable that PyMC transforms enters on its transformed scale, under the name
        that PyMC gives to it there: ``sigma_log__`` is ``log(sigma)``. A spread tau of persons' effects
        enters as ``log(tau ** 2 + c)``, with a public number c. Arrays are flattened row by row.
    point, gradient : ndarray, shape (p,)
    information : ndarray, shape (p, p)
        Symmetric, without a negative eigenvalue.
    facts : dict
        Facts about the release, in JSON types: `epsilon` and `delta` of the budget (`epsilon` is None where
        there is no privacy), `verdict` by parameter, `fit`, and others: see `LikelihoodFacts`.
    public : PublicModel, optional
        The public part of the model, from which `model` makes a PyMC model.

    Raises
    ------
    ValueError
        Shapes do not agree, numbers are not finite, the matrix is not symmetric or has a negative eigenvalue,
        or facts are incomplete or cannot be JSON.

    Notes
    -----
    **Privacy.** What may be published is the file that `save` writes, the report, and draws from any model
    that this likelihood is in. A pickle has the same content as the file, and no model: priors are code, and
    code takes along whatever it refers to.
    """

    coordinates: Sequence[Part]
    point: np.ndarray
    gradient: np.ndarray
    information: np.ndarray
    facts: LikelihoodFacts
    public: PublicModel | None = field(default=None)

    def __post_init__(self) -> None:
        size = sum(part.size for part in self.coordinates)
        for name, shape in (("point", (size,)), ("gradient", (size,)), ("information", (size, size))):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != shape:
                raise ValueError(f"{name} has shape {value.shape}, and the coordinates have {size} numbers.")
            if not np.all(np.isfinite(value)):
                raise ValueError(f"{name} has numbers that are not finite.")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "coordinates", tuple(self.coordinates))
        object.__setattr__(self, "facts", _checked(self.facts))
        names = [part.name for part in self.coordinates]
        if not names or len({*names, "name"}) <= len(names):  # `potential` has an argument `name`
            raise ValueError(f"there are no coordinates, or names that are twice or 'name': {names}.")
        if np.any(self.information != self.information.T):
            raise ValueError("information is not symmetric.")
        values = np.linalg.eigvalsh(self.information)
        # By rounding, a semidefinite matrix may have eigenvalues that are below zero by this part of the
        # largest.
        if values[0] < -1e-12 * size * np.max(np.abs(values)):
            raise ValueError("information has a negative eigenvalue.")

    @property
    def labels(self) -> list[str]:
        """Names of the numbers of phi: ``beta[0]``."""
        return name_numbers(self.coordinates)

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of the release: ``likelihood.guarantee.epsilon(1e-6)``."""
        return read_guarantee(self.facts)

    def model(self) -> pm.Model:
        """Make the public part of the model with this likelihood, a new copy at each call.

        Returns
        -------
        pymc.Model
            Free variables with priors, transforms and initial values, public `pymc.Data`, Deterministics and
            Potentials of the original model, dimensions and coordinates that are not of records, and this
            likelihood as a Potential. Levels of groups whose spread is free have a transform that makes them
            easy to sample. Any sampler can be used: ``pm.sample(model=likelihood.model())``.

        Raises
        ------
        PrivacyError
            The likelihood was read from a file or a pickle, which contain no model.

        Notes
        -----
        **Privacy.** No array of records is in its graphs: what is computed with it costs nothing, and may be
        published. Functions of yours that a prior uses (`pymc.CustomDist`, a transform) are in it unchanged,
        with everything they refer to: give others the file and the lines that declare the priors, and no
        pickle of a model.
        """
        if self.public is None:
            raise PrivacyError(
                "This likelihood was read from a file or a pickle, which hold numbers and no model.\n"
                f"  How to fix it: declare priors in a model of your own, and in its context call "
                f"likelihood.potential({self._arguments()})."
            )
        mode = self.point + np.linalg.pinv(self.information, hermitian=True) @ self.gradient
        ends = np.cumsum([part.size for part in self.coordinates])[:-1]
        each = zip(
            self.coordinates, np.split(mode, ends), np.split(np.diag(self.information), ends), strict=True
        )
        estimates = {
            part.name: Estimates(one.reshape(part.shape), two.reshape(part.shape)) for part, one, two in each
        }
        return self.public.model(self._log_likelihood, estimates)

    def potential(self, /, name: str | None = None, **parameters: TensorLike) -> Variable:
        """Add this likelihood to the model of the context, as a Potential.

        Parameters
        ----------
        name : str, optional
            Name of the Potential. Default: ``"likelihood"``, with a number if that is taken.
        **parameters
            For each coordinate a variable, an expression or an array of its shape. Names that are no Python
            identifiers are given as ``**{"mean + tau * z": level}``.

        Returns
        -------
        Variable
            The Potential.

        Raises
        ------
        ValueError
            A coordinate is missing, unknown, or has another shape.
        TypeError
            There is no model context, or a value is no variable or array of numbers.

        Notes
        -----
        **Privacy.** Computed from what is released.
        """
        names = [part.name for part in self.coordinates]
        missing, unknown = set(names) - set(parameters), set(parameters) - set(names)
        if missing or unknown:
            said = [
                f"{kind} {sorted(of_it)}"
                for kind, of_it in (("missing", missing), ("unknown", unknown))
                if of_it
            ]
            raise ValueError(f"potential: {'; '.join(said)}. The coordinates are:\n{self._listed()}")
        values = [_shaped(part, parameters[part.name]) for part in self.coordinates]
        return add_potential(self._log_likelihood(values), name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, which may be published.

        Parameters
        ----------
        path : str or Path

        Notes
        -----
        JSON, with these fields:

        - ``format``: 1.
        - ``coordinates``: a list of objects with ``name``, ``shape`` (a list) and ``expression``.
        - ``point``, ``gradient``: lists of p numbers; ``information``: a list of p lists of p numbers. Each
          number is written such that it is read back exactly.
        - ``facts``: see `Likelihood`.
        - ``digest``: SHA-256 of all other fields, as JSON with sorted keys, without white space and ASCII
          only. It shows that a file was edited or damaged; it is not a signature.

        **Privacy.** Everything in it was released.
        """
        Path(path).write_text(self._text(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Likelihood":
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Likelihood
            Without a model: see `potential`.

        Raises
        ------
        PrivacyError
            The file has another format, is damaged, or was edited.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise file.damaged("it is not text") from error
        return cls._read(text)

    @classmethod
    def _read(cls, text: str) -> "Likelihood":
        try:
            read = cls(*file.decode(text))
            read.report()  # facts are what they should be
        except ValueError as error:
            raise file.damaged(str(error).removesuffix(".")) from error
        except (TypeError, KeyError, AttributeError, IndexError) as error:
            raise file.damaged("its facts cannot be read") from error
        return read

    def _text(self) -> str:
        arrays = {"point": self.point, "gradient": self.gradient, "information": self.information}
        return file.encode(self.coordinates, arrays, self.facts)

    def __reduce__(self):
        return Likelihood._read, (self._text(),)

    def __copy__(self) -> "Likelihood":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Likelihood":
        return self

    def report(self) -> str:
        """Return the report as text: the guarantee, what was released, and a verdict on each parameter."""
        parts = "; ".join(_described(part) for part in self.coordinates)
        released = (
            f"a normal likelihood of {self.point.size} numbers ({parts}): its point, gradient and information"
        )
        return write_report(self.facts, released)

    def __repr__(self) -> str:
        known = self.facts
        said = (
            f"epsilon = {known['epsilon']:g}, delta = {known['delta']:g}"
            if known["is_private"]
            else "NOT PRIVATE"
        )
        return f"<Likelihood of {self._arguments()}: {said}>"

    def _log_likelihood(self, parts: Sequence[TensorLike]) -> Variable:
        phi = pt.concatenate([pt.as_tensor(part).ravel() for part in parts])
        # These are copies, since compiled code of some backends does not take read-only arrays.
        point, gradient, information = map(np.array, (self.point, self.gradient, self.information))
        delta = phi - point
        # Sums of products compile in a third of the time of matrix products.
        square = (information * delta[:, None] * delta[None, :]).sum()
        return (gradient * delta).sum() - 0.5 * square

    def _arguments(self) -> str:
        return ", ".join(part.name for part in self.coordinates)

    def _listed(self) -> str:
        return "\n".join(f"  {_described(part)}" for part in self.coordinates)


def _described(part: Part) -> str:
    shape = f"{part.name} {tuple(part.shape)}" if part.shape else part.name
    return shape if part.expression == part.name else f"{shape} = {part.expression}"


def _shaped(part: Part, value: TensorLike) -> Variable:
    """Return a parameter as a tensor of its coordinate's shape, checked now or when it is computed."""
    try:
        tensor = pt.as_tensor(value).astype("float64")
    except (TypeError, ValueError, NotImplementedError):
        raise TypeError(
            f"potential: {part.name!r} must be a variable or an array of numbers, got {type(value).__name__}."
        ) from None
    sizes = tensor.type.shape
    if len(sizes) != len(part.shape) or any(
        size not in (None, wanted) for size, wanted in zip(sizes, part.shape, strict=True)
    ):
        shown = tuple("?" if size is None else size for size in sizes)
        raise ValueError(
            f"potential: {part.name!r} has shape {tuple(part.shape)}, and was given one of {shown}."
        )
    return pt.specify_shape(tensor, part.shape) if part.shape else tensor


def _checked(facts: LikelihoodFacts) -> LikelihoodFacts:
    """Return the facts in JSON types, checked."""
    try:
        plain = json.loads(json.dumps(facts, allow_nan=False))
        missing = LikelihoodFacts.__required_keys__ - set(plain)
    except (TypeError, ValueError) as error:
        raise ValueError("facts hold something that JSON cannot, or a number that is not finite.") from error
    if missing:
        raise ValueError(f"facts lack {sorted(missing)}.")
    if plain["is_private"]:
        _check_guarantee(plain)
    return plain


def _check_guarantee(facts: LikelihoodFacts) -> None:
    try:
        events = read_guarantee(facts).events
        said = (
            facts["neighboring_relation"],
            facts["unit"] in ("row", "person"),
            float(facts["epsilon"] or 0) > 0,
        )
    except (TypeError, ValueError) as error:
        raise ValueError("facts say nothing that can be read of what is guaranteed.") from error
    if said != (events.neighboring_relation, True, True):
        raise ValueError("facts contradict each other in what is guaranteed.")
