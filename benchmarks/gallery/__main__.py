"""What becomes of everyday models: refused, crashed, warned of; seconds; where the truth is.

    python -m benchmarks.gallery                                  # n = 2,000, epsilon = 1
    python -m benchmarks.gallery --n 20000 --only radon_with_lkj spline --out radon.csv

Each model is made with fresh data, its likelihood is released, and NUTS samples the public model. A line a
model: how it ended (ok; refused, before a row was read; crashed or not sampled, after payment), warnings,
seconds of the release and of the whole call (in one process, one model after the other; processor seconds in
brackets), the largest |z| = |posterior mean - truth| / posterior sd of all numbers whose truth is known, the
largest R-hat, the largest posterior sd over the prior's.
"""

import csv
import resource
import time
import warnings
from argparse import ArgumentParser

import arviz as az
import numpy as np

import pymc_dp as dp
from benchmarks.gallery import counts, groups, regressions, shapes  # noqa: F401
from benchmarks.gallery.gallery import GALLERY
from pymc_dp.errors import NotSampledError
from pymc_dp.likelihood.draws import draw

_FIELDS = ["model", "n", "end", "release", "whole", "processor", "z", "of", "r_hat", "of_prior", "warnings"]


def run(name: str, n: int, epsilon: float, draws: int, seed: int) -> dict[str, object]:
    """One call: how it ended, what it took, and where the truth is."""
    data_seed = np.random.default_rng([seed, *map(ord, name)])
    model, truth = GALLERY[name](data_seed, n)
    found: dict[str, object] = {"model": name, "n": n, "warnings": ""}
    settings = {"random_seed": seed, "progressbar": False, "quiet": True}
    started, used = time.perf_counter(), _processor()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            likelihood = dp.release_likelihood(model, epsilon=epsilon, delta=1e-6)
            found["release"] = round(time.perf_counter() - started, 1)
            idata = draw(likelihood, draws, None, settings)
        except dp.errors.ModelRefusedError as error:
            return found | {"end": f"refused: {str(error)[:200]}"}
        except NotSampledError as error:
            found |= {"end": "not sampled", "warnings": str(error)[:100]}
            return found | {"whole": round(time.perf_counter() - started, 1)}
        except Exception as error:
            return found | {"end": f"crashed: {type(error).__name__}: {str(error)[:200]}"}
    found["whole"] = round(time.perf_counter() - started, 1)
    found["processor"] = round(_processor() - used, 1)
    found["warnings"] = "; ".join({f"{w.category.__name__}: {str(w.message)[:80]}" for w in caught})
    posterior = idata["posterior"].dataset
    z, of = 0.0, ""
    for parameter, true in truth.items():
        values = posterior[parameter].to_numpy().reshape(-1, *np.shape(true))
        apart = np.abs(values.mean(0) - true) / values.std(0)
        if not np.max(apart) <= z:
            z, of = float(np.max(apart)), parameter
    r_hat = max(float(np.nanmax(v.values, initial=1.0)) for v in az.rhat(posterior).data_vars.values())
    of_prior = max(float(one["of_prior"]) for one in likelihood.facts["verdict"].values())
    found |= {"z": round(z, 1), "of": of, "r_hat": round(r_hat, 3), "of_prior": round(of_prior, 3)}
    return found | {"end": "ok"}


def _processor() -> float:
    """Seconds of this process and of those that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def main() -> None:
    """Run all or some, print a line each, and write them to a file."""
    parser = ArgumentParser(prog="python -m benchmarks.gallery", description="Everyday models.")
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(GALLERY), choices=list(GALLERY), metavar="NAME")
    parser.add_argument("--out")
    args, rows = parser.parse_args(), []
    for name in args.only:
        row = run(name, args.n, args.epsilon, args.draws, args.seed)
        rows.append(row)
        print(
            f"{name:32s} {row['end']} | {row.get('release', '-')} {row.get('whole', '-')} s "
            f"({row.get('processor', '-')}) | z {row.get('z', '-')} {row.get('of', '')} | R-hat "
            f"{row.get('r_hat', '-')} | {row.get('of_prior', '-')} of prior | {row['warnings']}",
            flush=True,
        )
    ends = [str(row["end"]).split(":")[0] for row in rows]
    print({end: ends.count(end) for end in sorted(set(ends))})
    seconds = [float(str(row["whole"])) for row in rows if "whole" in row]
    print(f"seconds, median: {np.median(seconds):.1f}" if seconds else "")
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, _FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
