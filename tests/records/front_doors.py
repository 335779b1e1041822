"""One record with a code that no table has, at each front door; a script, for a process of its own.

``python -m tests.records.front_doors DOOR ...`` prints what kind of result there is for each code at each
door, and a last line that says that it came to the end.
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
# Codes of one record. The first is as it should be; the last is what -1 becomes as an unsigned byte.
CODES = [2, -1, -(10**9), K, 10**6, 2**31 - 1, 2**63 - 1, NO_NUMBER, 255]
# What is sampled was released: of the release all codes are tried, of a run of the sampler these.
FEW = [CODES[0], K, NO_NUMBER]
QUIET: dict[str, Any] = {"progressbar": False, "cores": 1, "chains": 1, "tune": 20, "quiet": True}


def codes(code: int) -> np.ndarray:
    """Those of all records; bytes where the code is one that went round."""
    g = G.copy()
    g[BAD] = code
    return g.astype("uint8") if code == 255 else g


def model(code: int) -> pm.Model:
    """Levels of groups that are looked up and written, and effects of a second column."""
    with pm.Model() as made:
        g = pm.Data("g", codes(-1 if code == 255 else code))
        if code == 255:
            g = pt.cast(pt.cast(g, "uint8"), "int64")
        level = pm.Normal("mean") + pm.HalfNormal("tau") * pm.Normal("z", shape=K)
        one_hot = pt.zeros((g.shape[0], K))[pt.arange(g.shape[0]), g].set(1.0)
        pm.Deterministic("rate", level[g])
        pm.Normal("y", level[g] + one_hot @ pm.Normal("w", shape=K) * X, 1, observed=Y)
    return made


def codes_of(door: str) -> list[int]:
    """Codes that are tried at a door."""
    return FEW if door == "sample" else CODES


@functools.cache
def sampled(code: int, draws: int = 30) -> Any:
    kwargs = {name: value for name, value in QUIET.items() if name != "quiet"}
    return dp.sample(draws, epsilon=5, model=model(code), random_seed=1, **kwargs)


def shown(result: Any) -> str:
    """All of a result that is not a number."""
    (group,) = {"posterior", "predictions"} & set(result.children)
    return " ".join(f"{v.name}{v.shape}{v.dtype}" for v in result[group].values())


def door(name: str) -> Any:
    """A function of a code."""
    if name == "sample":
        return lambda code: shown(sampled(code))
    if name == "release_likelihood":
        return lambda code: type(dp.release_likelihood(model(code), epsilon=5)).__name__
    if name == "prepare":
        return prepared
    idata = sampled(CODES[0], 100)
    if name == "check":
        return lambda code: type(dp.check(idata, model(code), epsilon=5, delta=1e-6)).__name__
    if name == "compare":
        return lambda code: type(dp.compare({"a": (idata, model(code))}, epsilon=5, delta=1e-6)).__name__
    if name == "predict":
        return lambda code: shown(predicted(idata, code, np.arange(K)))
    return lambda code: shown(predicted(idata, CODES[0], np.array([0, code])))


def predicted(idata: Any, code: int, inputs: np.ndarray) -> Any:
    """Levels of groups that are public, from a model in which a record has a code."""
    return dp.predict(idata, model(code), inputs={"g": inputs}, var_names=["rate"])


def prepared(code: int) -> str:
    """Codes as levels and as numbers."""
    table = {"level": codes(code), "number": codes(code).astype("float64")}
    kinds = {"level": dp.Category(levels=list(range(K))), "number": dp.Numeric(bounds=(0, K))}
    rows = dp.Prepare(kinds, epsilon=5, delta=1e-6).fit_transform(table)
    return str({name: (np.shape(v), np.asarray(v).dtype) for name, v in dict(rows).items()})


def main(name: str) -> None:
    warnings.simplefilter("ignore")
    use = door(name)
    for code in codes_of(name):
        try:
            print(f"{use(code)}", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(argument)
    print("to the end")
