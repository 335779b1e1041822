"""from_bambi(): the PyMC model of a Bambi model, or a refusal that lists what was computed from the data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import pymc as pm

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.checks import OBSERVATIONS, accept_bambi

if TYPE_CHECKING:
    from bambi import Model
    from formulae.terms.call import Call
    from formulae.terms.terms import Term
    from formulae.terms.variable import Variable

    type Component = Variable | Call


def from_bambi(model: "Model", *, levels: Mapping[str, Sequence[object]] | None = None) -> pm.Model:
    """Build a Bambi model, or refuse it and list every number in it that was computed from the data.

    Parameters
    ----------
    model : bambi.Model
        Made with ``auto_scale=False`` and ``center_predictors=False``.
    levels : mapping of str to sequence, optional
        Public levels of each categorical column, in their order: from `Prepare.coords`, or known otherwise.
        The column must be an ordered `pandas.Categorical` with these categories; for other columns formulae
        takes the levels that occur in the data.

    Returns
    -------
    pymc.Model
        Without Deterministics that have an entry for each record (``p``, ``mu``, ...). Use it as any model:
        ``with dp.from_bambi(model): dp.sample(...)``.

    Raises
    ------
    ModelRefusedError
        The model has numbers that were computed from the data; the message lists all of them.
    TypeError
        `model` is not a `bambi.Model`.

    Notes
    -----
    **Privacy.** Reads declarations: formula, priors, column types. Errors that Bambi raises while a model is
    made show values of the data: they are for the data holder alone. Numbers that you computed from the data
    and gave to Bambi yourself cannot be distinguished from others.
    """
    try:
        from bambi import Model
        from bambi.backend import PyMCModel
    except ImportError:
        raise ImportError("from_bambi needs Bambi: pip install bambi.") from None
    if not isinstance(model, Model):
        raise TypeError(f"from_bambi takes a bambi.Model, got {type(model).__name__}.")
    found = list(_from_the_data(model, dict(levels or {})))
    if found:
        raise ModelRefusedError(
            "This Bambi model has numbers that were computed from the data:\n"
            + "\n".join(f"    - {what}" for what in found),
            "priors, centres and levels are used, and partly published, without noise.",
            "scale and number the columns with dp.Prepare, which pays for that once; then give Bambi priors "
            "for columns of order one, auto_scale=False, center_predictors=False, and categoricals with "
            "public levels (docs/prepare).",
        )
    backend = PyMCModel()
    backend.build(model)
    built = backend.model
    for variable in list(built.deterministics):
        if OBSERVATIONS in built.named_vars_to_dims.get(variable.name, ()):
            built.deterministics.remove(variable)
            del built.named_vars[variable.name], built.named_vars_to_dims[variable.name]
    accept_bambi(built)
    return built


def _from_the_data(model: "Model", levels: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Yield a description of each number that was computed from the data."""
    if model.dropna:
        yield "the number of records: dropna=True leaves out incomplete rows (fill them in by a public rule)"
    # Families whose number of parameters is the number of levels that Bambi finds in the outcome.
    of_levels = ("Cumulative", "StoppingRatio", "Categorical", "Multinomial", "DirichletMultinomial")
    family = type(model.family).__name__
    if family in of_levels:
        yield f"the number of levels of the outcome (family {family})"
    yield from _priors(model)
    categorical: dict[str, None] = {}
    for name, component in model.conditional_parameters.items():
        design = component.design
        terms = list(design.common.terms.values()) if design.common is not None else []
        intercept = any(term.kind == "intercept" for term in terms)
        slopes = [term.name for term in terms if term.kind not in ("intercept", "offset")]
        if model.center_predictors and intercept and slopes:
            yield f"the means of {', '.join(slopes)} in {name!r}: center_predictors=True"
        if component.hsgp_terms:
            yield f"the range of {', '.join(component.hsgp_terms)} in {name!r}: a Gaussian process's basis"
        groups = design.group.terms.values() if design.group is not None else ()
        outcome = [design.response.term] if design.response is not None else []
        for term in [*terms, *groups, *outcome]:
            yield from _components(_parts(term), categorical)
    for name in categorical:
        if name in model.data:
            yield from _levels(name, model.data[name].dtype, levels)


def _parts(term: "Term") -> list["Component"]:
    """Return the columns and calls that a term of formulae is made of.

    Raises
    ------
    TypeError
        The term's class is unknown.
    """
    from formulae.terms import terms

    if isinstance(term, terms.GroupSpecificTerm):  # the effect, and the groups by which it varies
        return _parts(term.expr) + _parts(term.factor)
    if isinstance(term, terms.Response):
        return _parts(term.term)
    if isinstance(term, terms.Intercept | terms.NegatedIntercept):
        return []
    if isinstance(term, terms.Term):
        return term.components
    raise TypeError(f"from_bambi does not know terms of the class {type(term).__name__}.")


def _priors(model: "Model") -> Iterator[str]:
    """Yield the priors that Bambi scaled.

    The attribute `auto_scale` of a prior only helps to name them: `set_priors` removes it, and leaves the
    scaled numbers.
    """
    from bambi import Prior

    if not (model.auto_scale or hasattr(model, "scaler")):
        return
    yield "priors that Bambi scaled when the model was made: give auto_scale=False to bambi.Model, not later"
    priors = [
        (f"{term.name} ~ ", f" (of {name!r})", term.prior)
        for name, component in model.conditional_parameters.items()
        for term in component.terms.values()
    ]
    priors += [(f"{name} ~ ", "", component.prior) for name, component in model.marginal_parameters.items()]
    for name, of, prior in priors:
        if isinstance(prior, Prior) and prior.auto_scale:
            yield f"the prior {name}{prior.name}{of}: Bambi's own, with its scale from the data"


def _components(components: Sequence["Component"], categorical: dict[str, None]) -> Iterator[str]:
    """Yield the calls that may read a whole column; add the categorical columns to `categorical`."""
    for component in components:
        if type(component).__name__ == "Call":
            callee, _, arguments = component.name.removesuffix(")").partition("(")
            plain = all(argument.strip().isidentifier() for argument in arguments.split(","))
            # These calls read one row at a time, if their arguments are columns.
            if callee not in ("offset", "p", "prop", "proportion") or not plain:
                yield (
                    f"{component.name}: what a call in a formula reads cannot be told (scale, center, bs, "
                    "poly read whole columns); make it a column, row by row"
                )
        elif component.kind == "categoric":
            categorical[component.name] = None


def _levels(name: str, dtype: object, levels: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Yield what is wrong with a column's levels, if they are not the declared ones."""
    if name not in levels:
        yield f"the levels of {name!r}: give those that are public, levels={{{name!r}: [...]}}"
    elif not (isinstance(dtype, pd.CategoricalDtype) and dtype.ordered):
        yield (
            f"the levels of {name!r}: formulae takes those that occur, unless the column is "
            "pd.Categorical(..., categories=levels, ordered=True)"
        )
    elif list(dtype.categories) != list(levels[name]):
        yield f"the levels of {name!r}: its categories are not those of levels="
