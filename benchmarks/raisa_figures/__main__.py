"""Figures 7.1 and 7.2 of Räisä (2021): clipping, and the budget, against maximum mean discrepancy.

    OMP_NUM_THREADS=1 python -m benchmarks.raisa_figures clipping      # six minutes
    OMP_NUM_THREADS=1 python -m benchmarks.raisa_figures epsilon       # twenty minutes
    python -m benchmarks.raisa_figures epsilon --draw                  # the picture, from the stored numbers

The banana of the thesis in 2 and 10 dimensions, n = 100,000; in the second figure also tempered, T = 0.01. A
chain starts within one posterior standard deviation of the mean, and its second half is compared with exact
draws. Clip bounds and step sizes come from public knowledge alone: from data simulated at another parameter.
A bound is the 90% quantile of the records' log-likelihood ratios there, since the thesis finds that a tenth
may be clipped; for moves of one component, which do not bear that, the 99% quantile. In the second figure
every sampler makes about 2,000 passes over the data: 2,000 iterations, or 400 of HMC with 5 gradients each.
Numbers go to benchmarks/results, pictures to docs/images.
"""

import logging
from functools import partial

import pandas as pd

from benchmarks import results, running
from benchmarks.raisa_figures import by_clip, by_epsilon, figure_7_1, figure_7_2


def main() -> None:
    """Measure a figure's numbers, and draw it."""
    parser = running.parser(__doc__)
    parser.add_argument("what", choices=["clipping", "epsilon"])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0, 12.0])
    parser.add_argument("--tempering", type=float, nargs="+", default=[1.0, 0.01])
    parser.add_argument("--samplers", nargs="+", help="those of the figure")
    parser.add_argument("--keep", action="store_true", help="stored numbers of all other runs")
    parser.add_argument("--draw", action="store_true", help="stored numbers, no runs")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    few = {key: value for key, value in (("runs", args.runs), ("samplers", args.samplers)) if value}
    name, measure, draw = {
        "clipping": ("raisa_7_1", partial(by_clip, args.dimensions), figure_7_1),
        "epsilon": (
            "raisa_7_2",
            partial(by_epsilon, args.dimensions, args.epsilon, temperings=args.tempering),
            figure_7_2,
        ),
    }[args.what]
    rows = results.stored(name) if args.draw else measure(**few)
    if args.keep:
        rows = pd.concat([results.stored(name), rows])
        keys = [key for key in ("d", "tempering", "sampler", "clip", "epsilon", "run") if key in rows]
        rows = rows.drop_duplicates(keys, keep="last").sort_values(["d", *keys[1:]], kind="stable")
    if not args.draw:
        results.store(name, rows)
    results.picture(name, draw(rows))


if __name__ == "__main__":
    main()
