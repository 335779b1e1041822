"""Records with codes that no table has, at each front door; a script, for a process of its own.

``python -m tests.records.front_doors DOOR ...`` prints what kind of result there is with some codes, and with
others, at each door; and a last line that says that it came to the end.
"""

import functools
import sys
import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_dp as dp

N, K, BAD = 200, 4, 5
RNG = np.random.default_rng(0)
G, X, Y = RNG.integers(0, K, N), RNG.normal(size=N), RNG.normal(size=N)
with np.errstate(all="ignore"):
    NO_NUMBER = int(np.array(np.nan).astype("int64"))
# Codes that public inputs have, one at a time. The first is as it should be.
CODES = [2, -1, -(10**9), K, 10**6, 2**31 - 1, 2**63 - 1, NO_NUMBER, 255]
# Codes of records, one each: as they should be; all others; and what -1 becomes as an unsigned byte.
OF_RECORDS = [CODES[:1], CODES[1:-1], CODES[-1:]]
QUIET: dict[str, Any] = {"progressbar": False, "cores": 1, "chains": 1, "tune": 20, "quiet": True}


def codes(some: list[int]) -> np.ndarray:
    """Those of all records; bytes where the code is one that went round."""
    g = G.copy()
    g[BAD : BAD + len(some)] = some
    return g.astype("uint8") if 255 in some else g


def model(some: list[int]) -> pm.Model:
    """Levels of groups that are looked up and written, and effects of a second column."""
    with pm.Model() as made:
        g = pm.Data("g", codes([-1] if 255 in some else some))
        if 255 in some:
            g = pt.cast(pt.cast(g, "uint8"), "int64")
        level = pm.Normal("mean") + pm.HalfNormal("tau") * pm.Normal("z", shape=K)
        one_hot = pt.zeros((g.shape[0], K))[pt.arange(g.shape[0]), g].set(1.0)
        pm.Deterministic("rate", level[g])
        pm.Normal("y", level[g] + one_hot @ pm.Normal("w", shape=K) * X, 1, observed=Y)
    return made


def codes_of(door: str) -> list[list[int]]:
    """What is tried at a door."""
    return [[code] for code in CODES] if door == "inputs" else OF_RECORDS


@functools.cache
def sampled(which: int) -> Any:
    """Of one of these."""
    kwargs = {name: value for name, value in QUIET.items() if name != "quiet"}
    return dp.sample(100, epsilon=5, model=model(OF_RECORDS[which]), random_seed=1, **kwargs)


def shown(result: Any) -> str:
    """All of a result that is not a number."""
    (group,) = {"posterior", "predictions"} & set(result.children)
    return " ".join(f"{v.name}{v.shape}{v.dtype}" for v in result[group].values())


def door(name: str) -> Any:
    """A function of codes."""
    if name == "sample":
        return lambda some: shown(sampled(OF_RECORDS.index(some)))
    if name == "release_likelihood":
        return lambda some: type(dp.release_likelihood(model(some), epsilon=5)).__name__
    if name == "prepare":
        return prepared
    idata = sampled(0)
    if name == "check":
        return lambda some: type(dp.check(idata, model(some), epsilon=5, delta=1e-6)).__name__
    if name == "compare":
        return lambda some: type(dp.compare({"a": (idata, model(some))}, epsilon=5, delta=1e-6)).__name__
    if name == "predict":
        return lambda some: shown(predicted(idata, some, np.arange(K)))
    return lambda some: shown(predicted(idata, OF_RECORDS[0], np.array([0, *some])))


def predicted(idata: Any, some: list[int], inputs: np.ndarray) -> Any:
    """Levels of groups that are public, from a model in which records have these codes."""
    return dp.predict(idata, model(some), inputs={"g": inputs}, var_names=["rate"])


def prepared(some: list[int]) -> str:
    """Codes as levels and as numbers."""
    table = {"level": codes(some), "number": codes(some).astype("float64")}
    kinds = {"level": dp.Category(levels=list(range(K))), "number": dp.Numeric(bounds=(0, K))}
    rows = dp.Prepare(kinds, epsilon=5, delta=1e-6).fit_transform(table)
    return str({name: (np.shape(v), np.asarray(v).dtype) for name, v in dict(rows).items()})


def main(name: str) -> None:
    warnings.simplefilter("ignore")
    use = door(name)
    for some in codes_of(name):
        try:
            print(f"{use(some)}", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(argument)
    print("to the end")
