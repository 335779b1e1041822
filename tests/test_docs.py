"""The documentation: links, blocks that run, and formulas and tables that hold."""

import re
from pathlib import Path

import numpy as np
import pytensor
import pytest
from scipy import stats
from scipy.optimize import root
from scipy.special import expit, log_expit

from pymc_dp.clipping import LipschitzClip
from pymc_dp.kernels.metropolis import penalty
from pymc_dp.kernels.tuning import largest_acceptance, optimal_walk
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.pricing import calibrate as plan
from pymc_dp.privacy.budget.remaining import CLIP_FRACTION_SHARE
from pymc_dp.proposals import FixedRadius
from tests.conftest import NUMBA
from tests.test_notebooks import bind

ROOT = Path(__file__).parent.parent
COPIES = (ROOT / "docs" / "notebooks").rglob("*.md")  # made when the site is built
PAGES = [
    *sorted(set((ROOT / "docs").rglob("*.md")) - {*(ROOT / "docs").glob("_build/**/*.md"), *COPIES}),
    *sorted((ROOT / "notebooks").rglob("*.md")),
    *sorted(ROOT.glob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """Anchors that GitHub and MkDocs give to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def broken_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


def missing_files(text):
    """Files and tests named in backticks that do not exist."""
    for path, _, test in re.findall(
        r"`((?:pymc_dp|tests|docs|notebooks|benchmarks|examples)/[\w/.]*)(::(\w+))?`", text
    ):
        file = ROOT / path
        if not file.exists() or (test and f"def {test}(" not in file.read_text()):
            yield f"{path} {test}".strip()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    text = page.read_text()
    assert list(broken_links(page, text)) == []
    assert list(missing_files(text)) == []


def test_broken_links_are_found():
    """Control."""
    page = ROOT / "docs" / "index.md"
    text = "[a](nowhere.md) [b](promise.md#nothing) `tests/test_docs.py::test_nothing` `pymc_dp/nothing.py`"
    assert list(broken_links(page, text)) == ["nowhere.md", "promise.md#nothing"]
    assert list(missing_files(text)) == ["tests/test_docs.py test_nothing", "pymc_dp/nothing.py"]


def blocks(page):
    return [code for language, code in FENCE.findall(page.read_text()) if language == "python"]


# Compiled code is worth its compilation there.
LONG = {"docs/comparing.md", "docs/index.md", "docs/planning.md"}


WITH_BLOCKS = [p for p in PAGES if p.parent != ROOT and blocks(p)]
# Half of the time of all pages; what it calls is called in gallery/study.ipynb too.
LONGEST = {"docs/comparing.md"}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name)
def test_names_and_arguments_in_blocks_exist(page):
    for code in blocks(page):
        bind(code)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.exhaustive) if name(p) in LONGEST else p for p in WITH_BLOCKS],
    ids=name,
)
@pytest.mark.slow
def test_blocks_run(page, tmp_path, monkeypatch):
    """One after the other, as a reader would run them; files are written elsewhere."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": name(page)}
    with pytensor.config.change_flags(**(NUMBA if name(page) in LONG else {})):
        for code in blocks(page):
            exec(compile(code, name(page), "exec"), namespace)


# docs/proofs/penalty.md


def acceptance(h, s, points=2000):
    """Probability that the shipped test accepts h: quantiles of the noise times quantiles of ln u."""
    level = (np.arange(points) + 0.5) / points
    noise, exponential = s * stats.norm.ppf(level), -np.log1p(-level)
    return np.mean([np.mean(penalty(h + noise, s**2, e)) for e in exponential])


def closed_form(h, s):
    return stats.norm.cdf(h / s - s / 2) + np.exp(h) * stats.norm.cdf(-h / s - s / 2)


@pytest.mark.slow
def test_penalty_test_satisfies_detailed_balance():
    for s in (0.3, 1.0, 2.38, 4.0):
        for h in (0.0, 0.4, 1.5):
            forth, back = acceptance(h, s), acceptance(-h, s)
            assert forth == pytest.approx(closed_form(h, s), abs=2e-3)
            assert forth == pytest.approx(np.exp(h) * back, abs=3e-3)
            average = 2 * closed_form(h, s) / (1 + np.exp(h))
            assert average <= largest_acceptance(s) * (1 + 1e-12)
        slope = (closed_form(1e-5, s) - closed_form(-1e-5, s)) / 2e-5
        assert slope == pytest.approx(largest_acceptance(s) / 2, rel=1e-6)
        assert closed_form(0.0, s) == pytest.approx(largest_acceptance(s), rel=1e-12)


def test_without_the_penalty_detailed_balance_fails():
    """Control: the same quadrature of a test that forgets s^2 / 2."""
    s, h = 2.38, 1.5
    forth, back = (acceptance(x + s**2 / 2, s) for x in (h, -h))
    assert abs(forth - np.exp(h) * back) > 0.1


# docs/penalty.md


def jump(s):
    return s**2 * largest_acceptance(s)


BEST_STD, BEST_RATE = optimal_walk(10, fixed_length=True)
BEST = jump(BEST_STD)


def test_the_default_step_is_the_best():
    grid = np.linspace(0.1, 10, 100_000)
    best = grid[np.argmax([jump(s) for s in grid])]
    assert best == pytest.approx(BEST_STD, abs=2e-3) and round(BEST_STD, 2) == 2.38
    assert largest_acceptance(best) == pytest.approx(BEST_RATE, abs=5e-4) and round(BEST_RATE, 3) == 0.234
    assert pytest.approx(1.326, abs=5e-4) == BEST
    assert [1 - jump(s) / BEST for s in (2, 3)] == pytest.approx([0.04, 0.09], abs=5e-3)
    assert [1 - jump(x * BEST_STD) / BEST for x in (2 / 3, 1.5)] == pytest.approx([0.19, 0.29], abs=5e-3)
    assert optimal_walk(5, fixed_length=False) == pytest.approx((2.40, 0.28), abs=5e-3)
    assert [largest_acceptance(s) for s in (1, 2, 4)] == pytest.approx([0.62, 0.32, 0.05], abs=5e-3)


def displacement(iterations, s, chains=4000, d=10, L=1.7, tempering=0.5):
    """Mean squared displacement of a walk on a flat posterior, in units of (mu / (T L))**2."""
    cost = plan(2.0, 1e-6, draws=iterations, tune=0, chains=1, clip_fraction=False)
    rng = np.random.default_rng(iterations)
    step = s / (tempering * 2 * cost.noise_multiplier * L) / np.sqrt(d)
    proposal = FixedRadius()
    bound = LipschitzClip(L).bound(step * proposal.move(rng, d))
    noise_std = tempering * 2 * bound * cost.noise_multiplier
    assert noise_std == pytest.approx(s)
    moves = rng.standard_normal((iterations, chains, d))
    moves *= step * np.sqrt(d) / np.linalg.norm(moves, axis=-1, keepdims=True)
    ratio = noise_std * rng.standard_normal((iterations, chains))
    accepted = penalty(ratio, noise_std**2, rng.standard_exponential((iterations, chains)))
    place = (moves * accepted[..., None]).sum(0)
    return np.mean(np.sum(place**2, axis=1)) * (tempering * L / cost.mu) ** 2


@pytest.mark.slow
def test_a_run_diffuses_by_mu_over_lipschitz_whatever_its_length():
    """Relative standard error sqrt(2 / (10 * 4000)) = .7%; five of them, twice: false alarm below 1.2e-6."""
    for iterations in (60, 240):
        assert displacement(iterations, BEST_STD) == pytest.approx(BEST / 4, rel=0.0355)
    assert np.sqrt(BEST) / 2 == pytest.approx(0.576, abs=5e-4)
    assert abs(displacement(60, 1.0) / (BEST / 4) - 1) > 0.3  # control: another step does not get there


def rows(page, header):
    """Numbers in the table of a page whose first header cell is `header`."""
    _, _, rest = (ROOT / "docs" / page).read_text().partition(f"\n| {header} |")
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]


def test_table_of_effective_draws():
    table = [[float(x) for x in row] for row in rows("penalty.md", "n")]
    assert len(table) == 5
    for n, d, epsilon, mu2, draws, k in table:
        squared = plan(epsilon, 1e-6, draws=2000, tune=500, chains=1).mu ** 2
        precision = n / (4 * d)
        assert squared == pytest.approx(mu2, abs=5e-4)
        assert draws == round(BEST / 16 * squared * precision / d)
        assert k == round(squared * precision / 4)
    assert BEST / 16 == pytest.approx(0.083, abs=5e-4) and BEST / 64 == pytest.approx(0.02, abs=1e-3)


CHARGED = ({"release": "noisy_ratio"}, {}, {"noise_std": BEST_STD})


@pytest.mark.slow
def test_table_of_what_is_charged():
    stated = [float(row[2]) for row in rows("penalty.md", "what leaves")]
    plans = [plan(2.0, 1e-6, draws=2000, tune=500, chains=1, **charged) for charged in CHARGED]
    assert stated == pytest.approx([p.mu**2 for p in plans], abs=5e-4)
    assert stated[1] / stated[0] == pytest.approx(1.56, abs=5e-3)
    assert stated[2] / stated[1] == pytest.approx(1.14, abs=5e-3)
    few, many = (plan(2.0, 1e-6, draws=iterations, tune=0, chains=1).mu ** 2 for iterations in (100, 10_000))
    assert many == pytest.approx(plans[1].mu ** 2, rel=0.01) and few == pytest.approx(0.296, abs=5e-4)


def radial(rng, chains, d):
    move = rng.standard_normal((chains, d))
    return move / np.linalg.norm(move, axis=1, keepdims=True)


def axial(rng, chains, d):
    move = np.zeros((chains, d))
    move[np.arange(chains), rng.integers(d, size=chains)] = rng.uniform(0.8, 1.2, chains) * rng.choice(
        [-1.0, 1.0], chains
    )
    return move


def effective_draws(iterations, mu, d, precision, chains=200, direction=radial):
    """Variance of a draw over that of a run's mean: the penalty chain on an isotropic normal posterior."""
    rng = np.random.default_rng(1)
    noise = 2 * np.sqrt(iterations) / mu  # s for a move of length 1, with L = T = 1
    length = BEST_STD / np.sqrt(precision + noise**2)
    x = rng.standard_normal((chains, d)) / np.sqrt(precision)
    total = np.zeros_like(x)
    for _ in range(iterations):
        move = length * direction(rng, chains, d)
        proposal = x + move
        std = noise * np.linalg.norm(move, axis=1)
        ratio = 0.5 * precision * np.sum(x**2 - proposal**2, axis=1) + std * rng.standard_normal(chains)
        accepted = penalty(ratio, std**2, rng.standard_exponential(chains))
        x[accepted] = proposal[accepted]
        total += x
    return 1 / (precision * np.var(total / iterations))


@pytest.mark.slow
@pytest.mark.parametrize("direction", [radial, axial])
def test_effective_draws_of_a_run(direction):
    """Within 25% of the rule of thumb: seven standard errors, as 2,000 means give 3.2%."""
    mu, d, precision = 2.0, 10, 1000.0
    ceiling, k_star = BEST / 16 * mu**2 * precision / d, mu**2 * precision / 4
    for iterations in (1000, 4000):
        x = iterations / k_star
        found = effective_draws(iterations, mu, d, precision, direction=direction)
        assert found == pytest.approx(ceiling * x / (1 + x), rel=0.25)
    assert (
        effective_draws(1000, 2 * mu, d, precision, direction=direction) > 1.25 * ceiling / 2
    )  # control: the budget matters


def test_what_a_varying_length_costs():
    for d, loss, best_rate in ((1, 0.44, 0.44), (2, 0.28, 0.35), (5, 0.14, 0.28), (10, 0.07, 0.26)):
        length = stats.chi(d)
        scales = np.linspace(1.5, 3.5, 201) / np.sqrt(d)
        q = length.ppf((np.arange(2000) + 0.5) / 2000)
        worth = [np.mean((c * q) ** 2 * 2 * stats.norm.cdf(-c * q / 2)) for c in scales]
        assert 1 - max(worth) / BEST == pytest.approx(loss, abs=0.006)
        rate = np.mean(2 * stats.norm.cdf(-scales[np.argmax(worth)] * q / 2))
        assert rate == pytest.approx(best_rate, abs=0.006)
        assert optimal_walk(d, fixed_length=False)[1] == pytest.approx(best_rate, abs=0.006)


# docs/clipping.md


def constants():
    namespace = {}
    code = next(code for code in blocks(ROOT / "docs" / "clipping.md") if "LIPSCHITZ = " in code)
    exec(code, namespace)
    return namespace["LIPSCHITZ"]


def corners(d, R, rng, size):
    """Rows of norm R and parameters of many sizes, some of them aligned with the row."""
    x = rng.standard_normal((size, d))
    x *= R / np.linalg.norm(x, axis=1, keepdims=True)
    beta = rng.standard_normal((size, d)) * 10 ** rng.uniform(-1, 1.5, (size, 1))
    return x, beta


def steepest(log_density, parameters):
    """Largest norm of a gradient, by central differences; one row of `parameters` a record."""
    h = 1e-5
    slopes = []
    for j in range(parameters.shape[1]):
        step = np.zeros(parameters.shape[1])
        step[j] = h
        slopes.append((log_density(parameters + step) - log_density(parameters - step)) / (2 * h))
    return np.max(np.linalg.norm(slopes, axis=0))


R, SIZE = 1.5, 20_000


def eta(x, beta):
    return np.sum(x * beta, axis=1)


def bernoulli(rng):
    x, beta = corners(3, R, rng, SIZE)
    y = rng.integers(0, 2, SIZE)
    return {}, lambda b: log_expit((2 * y - 1) * eta(x, b)), beta


def binomial(rng):
    x, beta = corners(3, R, rng, SIZE)
    y = rng.choice([0, 2, 7], SIZE)
    return {"m": 7}, lambda b: y * log_expit(eta(x, b)) + (7 - y) * log_expit(-eta(x, b)), beta


def negative_binomial(rng):
    x, beta = corners(3, R, rng, SIZE)
    y = rng.choice([0, 3, 9], SIZE)
    alpha = 4.0
    return (
        {"Y": 9, "alpha": alpha},
        lambda b: y * eta(x, b) - (y + alpha) * np.logaddexp(np.log(alpha), eta(x, b)),
        beta,
    )


def student_t(rng):
    x, beta = corners(3, R, rng, SIZE)
    y = rng.normal(0, 5, SIZE)
    return {"nu": 3, "sigma": 0.7}, lambda b: stats.t.logpdf(y, 3, eta(x, b), 0.7), beta


def softmax(rng):
    x, _ = corners(2, R, rng, SIZE)
    weights = rng.standard_normal((SIZE, 6)) * 10 ** rng.uniform(-1, 1.5, (SIZE, 1))
    k = rng.integers(0, 3, SIZE)

    def log_density(w):
        scores = np.einsum("nd,ndk->nk", x, w.reshape(SIZE, 2, 3))
        top = scores.max(axis=1)
        return scores[np.arange(SIZE), k] - top - np.log(np.exp(scores - top[:, None]).sum(axis=1))

    return {}, log_density, weights


def normal(rng):
    x, beta = corners(3, R, rng, SIZE)
    beta *= np.minimum(1, 2.0 / np.abs(eta(x, beta)))[:, None]
    y = rng.uniform(-3, 3, SIZE)
    return {"Y": 3, "H": 2, "sigma": 0.5}, lambda b: stats.norm.logpdf(y, eta(x, b), 0.5), beta


def poisson(rng):
    x, beta = corners(3, R, rng, SIZE)
    beta *= np.minimum(1, np.log(6.0) / np.abs(eta(x, beta)))[:, None]
    y = rng.choice([0, 2, 5], SIZE)
    return {"Y": 5, "M": 6}, lambda b: y * eta(x, b) - np.exp(eta(x, b)), beta


def with_log_sigma(rng, z, sigma0):
    """Records at given standardized residuals, for parameters (beta, log sigma)."""
    x, beta = corners(3, R, rng, SIZE)
    log_sigma = np.log(sigma0) + rng.choice([0.0, 1.0], SIZE) * rng.exponential(1, SIZE)
    y = eta(x, beta) + z * np.exp(log_sigma)
    return x, y, np.column_stack([beta, log_sigma])


def normal_log_sigma(rng):
    x, y, parameters = with_log_sigma(rng, rng.uniform(-3, 3, SIZE), 0.8)
    return (
        {"Z": 3, "sigma0": 0.8},
        lambda p: stats.norm.logpdf(y, eta(x, p[:, :3]), np.exp(p[:, 3])),
        parameters,
    )


def student_t_log_sigma(rng):
    x, y, parameters = with_log_sigma(rng, rng.standard_cauchy(SIZE) * 2, 0.8)
    return (
        {"nu": 3, "sigma0": 0.8},
        lambda p: stats.t.logpdf(y, 3, eta(x, p[:, :3]), np.exp(p[:, 3])),
        parameters,
    )


FAMILIES = [
    bernoulli,
    binomial,
    negative_binomial,
    student_t,
    softmax,
    normal,
    poisson,
    normal_log_sigma,
    student_t_log_sigma,
]
# The bound adds two maxima that no single record attains; all others are attained.
LOOSE = {"student_t_log_sigma": 0.7}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_lipschitz_constants(family):
    """No slope above the constant, and some slope close to it: a bound, and not an idle one."""
    arguments, log_density, parameters = family(np.random.default_rng(0))
    found = steepest(log_density, parameters)
    constant = constants()[family.__name__](R, **arguments)
    assert found <= constant * (1 + 1e-5)
    assert found >= LOOSE.get(family.__name__, 0.97) * constant


def test_every_constant_is_tested():
    assert set(constants()) == {family.__name__ for family in FAMILIES}


def test_table_of_clipped_moves():
    table = {row[0]: row[1:] for row in rows("clipping.md", "L/g")}
    assert set(table) == {".9", ".7", ".5"}
    for share, cells in table.items():
        exact = [stats.beta(0.5, (d - 1) / 2).sf(float(share) ** 2) for d in (2, 5, 10, 50)]
        for cell, value in zip(cells, exact, strict=True):
            if cell.startswith("."):
                assert float(cell) == pytest.approx(value, rel=0.1)
            else:
                assert value < 2e-8


CLIPPED_AT = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


def logistic_data(n, d, rng):
    x = rng.standard_normal((n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    beta = np.concatenate([[1.0, -1.0, 0.5], np.zeros(d)])[:d]
    return x, (rng.random(n) < expit(x @ beta)).astype(float)


def directions(d, rng):
    """Pairs of opposite directions: a regular fan for d = 2, random ones otherwise."""
    if d == 2:
        angle = np.linspace(0, np.pi, 24, endpoint=False)
        half = np.column_stack([np.cos(angle), np.sin(angle)])
    else:
        half = rng.standard_normal((100, d))
        half /= np.linalg.norm(half, axis=1, keepdims=True)
    return np.concatenate([half, -half])


def settles_at(x, y, moves, lipschitz, start):
    """Where the mean of move times clipped ratio vanishes, to first order in the length of the move."""

    def drift(beta):
        slopes = ((y - expit(x @ beta))[:, None] * x) @ moves.T
        return np.clip(slopes, -lipschitz, lipschitz).sum(0) @ moves / moves.size

    return root(drift, start).x


def clipping_bias(d, n=20_000):
    """L -> share of clipped ratios, largest bias in posterior standard deviations."""
    rng = np.random.default_rng(0)
    x, y = logistic_data(n, d, rng)
    moves = directions(d, rng)
    mode = settles_at(x, y, moves, 10.0, np.zeros(d))
    p = expit(x @ mode)
    sd = np.sqrt(np.diag(np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)))
    slopes = np.abs(((y - p)[:, None] * x) @ moves.T)
    return {
        lipschitz: (
            np.mean(slopes > lipschitz),
            np.max(np.abs(settles_at(x, y, moves, lipschitz, mode) - mode) / sd),
        )
        for lipschitz in CLIPPED_AT
    }


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 5, 10])
def test_table_of_the_bias(d):
    table = {float(row[0]): [float(x) for x in row[1:]] for row in rows("clipping.md", "L")}
    assert set(table) == set(CLIPPED_AT)
    column = 2 * (2, 5, 10).index(d)
    for lipschitz, (share, bias) in clipping_bias(d).items():
        stated_share, stated_bias = table[lipschitz][column : column + 2]
        assert stated_share == pytest.approx(share, rel=0.06, abs=6e-5)
        assert stated_bias == pytest.approx(bias, rel=0.06, abs=6e-3)


@pytest.mark.slow
def test_a_clipped_chain_settles_where_first_order_theory_says():
    """60 chains of 1,500 short steps without noise; the standard error of their mean is below .015."""
    rng = np.random.default_rng(2)
    x, y = logistic_data(1000, 2, rng)
    moves = directions(2, rng)
    mode = settles_at(x, y, moves, 10.0, np.zeros(2))
    bent = settles_at(x, y, moves, 0.45, mode)
    beta = np.tile(bent, (60, 1))
    signs = (2 * y - 1)[:, None]
    old, total, steps = log_expit(signs * (x @ beta.T)), 0.0, 1500
    for _ in range(steps):
        move = 0.1 * rng.standard_normal((60, 2))
        new = log_expit(signs * (x @ (beta + move).T))
        bound = 0.45 * np.linalg.norm(move, axis=1)
        accepted = penalty(np.clip(new - old, -bound, bound).sum(0), 0.0, rng.standard_exponential(60))
        beta[accepted] += move[accepted]
        old[:, accepted] = new[:, accepted]
        total += beta.mean(0) / steps
    assert total == pytest.approx(bent, abs=0.05)
    assert np.max(np.abs(bent - mode)) > 0.2  # control: the unclipped mode would not pass


def test_noise_of_the_clip_fraction():
    cost = plan(2.0, 1e-6, draws=100, tune=50, chains=4)
    largest = float(gaussian.mu(2.0, 1e-6))
    assert largest == pytest.approx(0.448, abs=5e-4)
    assert cost.clip_fraction.noise_multiplier == pytest.approx(100 * np.sqrt(4) / largest, rel=1e-6)
    assert CLIP_FRACTION_SHARE == 1e-4
    assert 100 / (largest * 20_000) == pytest.approx(0.01, abs=2e-3)  # docs/clipping.md


def test_power_of_a_test_of_one_record():
    """docs/promise.md: 0.139."""
    mu = plan(2.0, 1e-6, draws=2000, tune=500, chains=2).mu
    assert stats.norm.cdf(stats.norm.ppf(0.05) + mu) == pytest.approx(0.139, abs=5e-4)


# docs/which_models.md


def test_tables_of_families_are_those_of_the_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    families = pytest.importorskip("families")
    page = families.PAGE.read_text()
    assert families.filled(page) == page, "python docs/families.py"
    assert page.count("\n| Poisson | ") == 1
    assert families.filled(page.replace("\n| Poisson | ", "\n| Poisson | 9")) == page  # control


# docs/evidence.md


@pytest.mark.parametrize(("name", "line"), [("evidence.md", "| wells | "), ("index.md", "| linear, x")])
def test_tables_of_evidence_are_those_of_the_benchmarks(name, line, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    evidence = pytest.importorskip("evidence")
    page, tables = (evidence.DOCS / name).read_text(), evidence.TABLES[name]
    assert evidence.filled(page, tables) == page, "python docs/evidence.py"
    assert page.count(f"\n{line}") == 1
    assert evidence.filled(page.replace(f"\n{line}", f"\n{line}9"), tables) == page  # control


# docs/architecture.md


ARCHITECTURE = ROOT / "docs" / "architecture.md"


def listed_folders(text):
    """Folders in the picture of the package."""
    (tree,) = (code for _, code in FENCE.findall(text) if code.startswith("pymc_dp/"))
    return set(re.findall(r"(\S+)/(?=[\s,])", tree.partition("\n")[2]))


def folders_of_the_package():
    package = ROOT / "pymc_dp"
    return {str(path.parent.relative_to(package)) for path in package.rglob("*.py")} - {".", "privacy"}


def missing_names_of_files(text):
    """Files in backticks, as `chain.py: Released` or `steps/chain.py`, that the package does not have."""
    files = {str(path.relative_to(ROOT / "pymc_dp")) for path in (ROOT / "pymc_dp").rglob("*.py")}
    for name in re.findall(r"`([\w/]+\.py)", FENCE.sub("", text)):
        if not name.startswith("tests/") and not any(f"/{file}".endswith(f"/{name}") for file in files):
            yield name


def test_the_picture_has_every_folder_and_each_file_that_is_named_exists():
    text = ARCHITECTURE.read_text()
    assert listed_folders(text) == folders_of_the_package()
    assert list(missing_names_of_files(text)) == []


def test_a_folder_that_is_not_listed_and_a_file_that_is_gone_are_noticed():
    """Control."""
    lines = ARCHITECTURE.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("  kernels/"))
    assert folders_of_the_package() - listed_folders(text) == {"kernels"}
    assert list(missing_names_of_files("`kernels/nowhere.py` `chain.py: Released`")) == ["kernels/nowhere.py"]
