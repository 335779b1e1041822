"""Every graph that is compiled passes the gate, and what passes is in range and does not raise."""

import re
from contextlib import nullcontext
from operator import call
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
from pytensor.compile.debug.debugmode import DebugMode
from pytensor.compile.debug.monitormode import MonitorMode
from pytensor.compile.debug.nanguardmode import NanGuardMode
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.link.vm import VMLinker
from pytensor.scan.basic import scan
from pytensor.tensor.elemwise import Elemwise

import pymc_dp
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import fast_forms, gate, positions
from pymc_dp.records import model as model_module
from pymc_dp.records.model import RecordModel
from pymc_dp.steps.chain import Released
from tests.own_process import printed

PACKAGE = Path(pymc_dp.__file__).parent
# What calls PyTensor's compiler, or has PyMC call it.
COMPILERS = re.compile(
    r"pytensor\.function\(|\bpm\.compile\(|\.eval\(|\.compile_fn\(|compile_pymc|compile_d?2?d?logp\("
    r"|logp_dlogp_function\(|(?<!gate)\.initial_point\(|make_initial_point_fn|\bpm\.draw\(|sample_prior_predictive\("
    r"|\.compile\(|import function\b"
)
# PyMC's own, which are given a mode of the gate.
GIVEN_A_MODE = re.compile(r"sample_posterior_predictive\(|compute_log_likelihood\(|compute_log_prior\(")


def code_of(path):
    """Without docstrings and comments."""
    text = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text())
    return re.sub(r"#.*", "", text).replace("re.compile(", "")


def test_no_other_file_calls_the_compiler():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "gate.py":
            assert not COMPILERS.findall(code_of(path)), path


def test_what_pymc_compiles_is_given_a_mode_of_the_gate():
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for one in GIVEN_A_MODE.finditer(code_of(path)):
            found += 1
            rest = code_of(path)[one.start() : one.start() + 500]
            assert re.search(r'compile_kwargs"?[=:] *\{"mode": gate\.', rest), path
    assert found == 1


class Recorder(GraphRewriter):
    """Says, after the last rewrite before loops are made, which positions are not proved to be in range."""

    def __init__(self, seen, found):
        super().__init__()
        self.seen, self.found = seen, found

    def apply(self, fgraph):
        for node in fgraph.toposort():
            if not positions.indexes(node):
                continue
            self.seen.append(node)
            for place, axis, _ in positions.positions(node):
                index, size = node.inputs[place], positions.length(node.inputs[0], axis)
                limits = [v for v in parents_of(index) if is_limited_by(v, size)]
                if not positions.is_proved(index, size) and not limits:
                    self.found.append(f"{node} at {index}")


def parents_of(index):
    """The index, and what it is a view of."""
    yield index
    while index.owner is not None and type(index.owner.op).__name__ in ("ScalarFromTensor", "DimShuffle"):
        index = index.owner.inputs[0]
        yield index


def is_limited_by(variable, size):
    """Whether this is a position that was limited to a length that only the data say."""
    node = variable.owner
    clipped = node is not None and type(getattr(node.op, "scalar_op", None)).__name__ == "Clip"
    return clipped and not isinstance(size, int)


def walk(monkeypatch, use):
    seen, found = [], []
    plain = gate._safe

    def recorded(mode, raising=False):
        return plain(mode, raising).register((Recorder(seen, found), gate._LAST + 0.01))

    monkeypatch.setattr(gate, "_safe", recorded)
    use()
    return seen, found


N, K = 30, 3
G = np.random.default_rng(0).integers(0, K, N)


def model_of(kind):
    with pm.Model() as model:
        g = pytensor.shared(G, name="g")
        z = pm.Normal("mean") + pm.HalfNormal("tau") * pm.Normal("z", shape=K)
        mu = {
            "look-up": lambda: z[g],
            "scatter": lambda: pt.extra_ops.to_one_hot(g, K) @ z,
            "vectorize": lambda: pt.vectorize(lambda i, t: t[i], "(),(k)->()")(g, z),
            "scan": lambda: scan(
                lambda _t, s, c, t: s + t[c],
                [pt.arange(2)],
                outputs_info=[pt.zeros(N)],
                non_sequences=[g, z],
                return_updates=False,
            )[-1],
        }[kind]()
        pm.Normal("y", mu, 1, observed=np.linspace(-1, 1, N))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["look-up", "vectorize", "scatter", "scan"])
def test_all_positions_in_compiled_graphs_are_in_range(kind, monkeypatch):
    """In likelihoods, ratios, coordinates and first derivatives, and in the graphs inside of Ops."""

    def use():
        records = RecordModel(model_of(kind))
        theta = np.zeros(records.d)
        records.full_batch.rows(theta)
        records.ratios(theta, theta, np.arange(3))
        with pytest.raises(ModelRefusedError, match="scan") if kind == "scan" else nullcontext():
            next(iter(map(call, records.twins(records.coordinates(theta), 1, PrivacyRandom(debug_seed=0)))))

    seen, found = walk(monkeypatch, use)
    assert len(seen) > 3
    assert found == []


def test_the_walk_sees_what_is_not_limited(monkeypatch):
    """Without the last rewrite, the same walk finds positions."""
    monkeypatch.setattr(gate.Safe, "apply", lambda self, fgraph: None)
    x, i = pt.vector("x"), pt.lvector("i")
    _, found = walk(monkeypatch, lambda: gate.compile_graph([x, i], x[i], private=[i], mode=gate.CHECK_MODE))
    assert found


@pytest.mark.parametrize("mode", [None, gate.CHECK_MODE, gate.PLAIN_MODE])
def test_what_is_out_of_range_is_not_read_nor_written(mode):
    x, i = pt.vector("x", dtype="float64"), pt.lvector("i")
    outputs = [x[i], pt.zeros(3)[i].inc(1.0), pt.constant([5, 6, 7])[i]]
    found = gate.compile_graph([x, i], outputs, private=[i], mode=mode)
    read, written, whole = found(np.array([1.0, 2.0, 3.0]), np.array([0, -1, 3, 10**9, -(2**63)]))
    np.testing.assert_array_equal(read, [1, 3, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(written, [1, 0, 1])
    np.testing.assert_array_equal(whole, [5, 7, *[np.iinfo(whole.dtype).min] * 3])


@pytest.mark.parametrize("mode", [None, gate.PLAIN_MODE])
def test_whole_numbers_divide_by_all(mode):
    """The lowest number modulo -1 ended the process; a negative power of 0 raised."""
    a, b = pt.lvector("a"), pt.lvector("b")
    compiled = gate.compile_graph([a, b], [a // b, a % b, a**b], private=[a, b], mode=mode)
    lowest = -(2**63)
    given = np.array([lowest, 7, 7, 0, -1, 2]), np.array([-1, 0, -2, -1, -3, 5])
    divided, rest, power = compiled(*given)
    np.testing.assert_array_equal(divided[1:], [0, -4, 0, 0, 0])
    np.testing.assert_array_equal(rest, [0, 0, -1, 0, -1, 2])
    np.testing.assert_array_equal(power[1:], [1, 0, 0, -1, 32])


@pytest.mark.parametrize("mode", ["NUMBA", gate.PLAIN_MODE])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_a_number_has_powers_of_all_whole_exponents(mode, dtype):
    """Compiled code multiplies and then divides: at zero it stopped, the derivative too (lag 0)."""
    a, b = pt.vector("a", dtype="float64"), pt.vector("b", dtype=dtype)
    outputs = [a**b, pt.grad((a**b).sum(), a)]
    given = np.array([0.0, 0.0, 0.0, 2.0]), np.array([-1, 0, 3, -2]).astype(dtype)
    power, _ = gate.compile_graph([a, b], outputs, private=[a, b], mode=mode)(*given)
    with np.errstate(divide="ignore"):
        expected = given[0] ** given[1].astype(float)
    np.testing.assert_array_equal(power, expected)


def test_powers_and_divisions_within_another_op_are_not_admitted():
    """Nothing guards them there."""
    x, k = ps.float64(), ps.int64()
    some, whole = pt.vector("some", dtype="float64"), pt.lvector("whole")
    refused = x**k, k**k, k // k, k % k, k % ps.constant(-1)
    admitted = x ** ps.constant(2), x ** ps.cast(k, "float64"), k ** ps.constant(3), k % ps.constant(2), x % k
    for inner, passes in [*((one, False) for one in refused), *((one, True) for one in admitted)]:
        out = Elemwise(ps.Composite([x, k], [inner + x]))(some, whole)
        with nullcontext() if passes else pytest.raises(ModelRefusedError, match="may stop"):
            gate.compile_graph([some, whole], out, private=[whole], mode=gate.PLAIN_MODE)


@pytest.mark.parametrize("op", [pt.linalg.det, pt.linalg.inv, pt.linalg.expm, pt.linalg.slogdet])
def test_an_op_that_may_raise_is_refused_for_records_and_taken_for_public_numbers(op):
    a, b = pt.tensor3("a", dtype="float64"), pt.tensor3("b", dtype="float64")
    out = op(a)
    out = out[-1] if isinstance(out, list | tuple) else out
    with pytest.raises(ModelRefusedError, match="may stop with an error"):
        gate.compile_graph([a], out, private=[a], mode=gate.PLAIN_MODE)
    assert callable(gate.compile_graph([a, b], out.sum() * b, private=[b], mode=gate.PLAIN_MODE))


def test_an_order_that_a_record_has_is_refused():
    """The time that a polygamma function takes grows with its order: one record would stop all."""
    order, x = pt.lvector("order"), pt.vector("x", dtype="float64")
    out = pt.polygamma(order, x)
    with pytest.raises(ModelRefusedError):
        gate.compile_graph([order, x], out, private=[order, x], mode=gate.PLAIN_MODE)
    assert callable(gate.compile_graph([order, x], out, private=[x], mode=gate.PLAIN_MODE))


def test_a_check_that_reads_records_is_refused():
    a = pt.vector("a", dtype="float64")
    checked = pytensor.raise_op.Assert("a number of a record")(a, pt.all(a > 0))
    with pytest.raises(ModelRefusedError):
        gate.compile_graph([a], checked, private=[a], mode=gate.PLAIN_MODE)
    assert callable(gate.compile_graph([a], checked, private=(), mode=gate.PLAIN_MODE))


def test_public_data_raise_with_their_name_where_it_is_asked():
    codes = pytensor.shared(np.array([0, 5]), name="codes")
    table = pt.vector("table", dtype="float64")
    found = gate.compile_graph([table], table[codes], private=(), raising=True)
    with pytest.raises(IndexError, match="'codes'"):
        found(np.zeros(3))
    np.testing.assert_array_equal(found(np.arange(6.0)), [0, 5])


def test_positions_that_count_down_are_limited():
    """From 100 to the length of a table they are beyond it, and were taken for its own."""
    table = pytensor.shared(np.arange(4.0), shape=(None,))
    down = gate.compile_graph([], table[pt.arange(100, table.shape[0], -1)], private=[])
    assert np.all(np.isnan(down()) | np.isin(down(), np.arange(4)))
    up = gate.compile_graph([], table[pt.arange(0, table.shape[0], 2)], private=[])
    np.testing.assert_array_equal(up(), [0, 2])


def test_a_deterministic_at_a_computed_position_releases_no_memory():
    """Compiled, it released words of the heap."""
    with pm.Model() as model:
        t = pm.Normal("t")
        table = pytensor.shared(np.arange(3.0), name="table")
        pm.Deterministic("rate", table[pt.cast(pt.floor(t), "int64")])
        pm.Normal("y", t, 1, observed=np.linspace(-1, 1, N))
    records = RecordModel(model, verify=False)
    released = Released(model, records.released_variables, records.reading.start)
    for value, rate in [(1.5, 1.0), (3.0, np.nan), (1e6, np.nan), (-4.0, np.nan), (1e300, np.nan)]:
        found = np.frombuffer(released({"t": np.array(value)}))
        np.testing.assert_array_equal(found, [value, rate])


def test_random_draws_are_admitted_where_they_are_asked_for():
    a = pt.vector("a", dtype="float64")
    draws = pm.Normal.dist(a, 1.0)
    with pytest.raises(ModelRefusedError):
        gate.compile_graph([a], draws, private=[a], mode=gate.CHECK_MODE)
    made = gate.compile_graph([a], draws, private=[a], mode=gate.CHECK_MODE, random=True)
    first, second = made(np.zeros(3)), made(np.zeros(3))
    assert not np.array_equal(first, second)


def raised(*parts):
    """What is printed of Ops that raise."""
    return printed("tests.records.admitted_ops", *parts)


@pytest.mark.slow
def test_ops_that_raised_once_do_not():
    """The derivative of digamma divided by zero near zero; whole numbers that divide, and powers."""
    assert not raised("Psi", "IntDiv", "Pow")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["numbers", "matrices", "tensors"])
def test_no_admitted_op_raises(part):
    """On what is no number, infinite, zero, subnormal, singular, empty; differentiated too."""
    assert not raised(part)


def test_an_op_that_ends_the_process_is_refused():
    """SciPy's function ended the process at `(1e308, 0.1, 1e308, nan)`, by a stack that it overran."""
    a, b, c, z = (pt.vector(name, dtype="float64") for name in "abcz")
    with pytest.raises(ModelRefusedError, match="may stop"):
        gate.compile_graph([a, b, c, z], pt.hyp2f1(a, b, c, z), private=[z], mode=gate.PLAIN_MODE)


def test_a_graph_that_cannot_be_made_safe_is_not_compiled(monkeypatch):
    """PyTensor logs that a rewrite failed, and goes on without it."""

    def fails(self, node):
        raise ValueError("a rule that is wrong")

    monkeypatch.setattr(gate.Safe, "_rewritten", fails)
    x, i = pt.vector("x"), pt.lvector("i")
    for given in (x[i], pt.vectorize(lambda k, t: t[k], "(),(k)->()")(i, x)):
        with pytest.raises(PrivacyError, match="not compiled"):
            gate.compile_graph([x, i], given, private=[i], mode=gate.CHECK_MODE)


def test_what_is_set_may_be_of_a_smaller_type_than_what_it_is_set_in():
    """A small whole number has no NaN: what is out of range is not set to one of these."""
    i = pt.lvector("i")
    out = pt.zeros((3, 2))[pt.arange(3), i].set(np.int8(1))
    found = gate.compile_graph([i], out, private=[i], mode=gate.CHECK_MODE)
    np.testing.assert_array_equal(found(np.array([0, 1, 7])), [[1, 0], [0, 1], [0, np.nan]])


def test_a_shared_variable_that_changes_when_it_is_read_is_not_compiled():
    """Whatever reads it, and when it was given its update."""
    a, shared = pt.vector("a"), pytensor.shared(0.0)
    assert callable(gate.compile_graph([a], a + shared, private=[a], mode=gate.PLAIN_MODE))
    stream = pytensor.shared(np.random.default_rng(0))
    with pytest.warns(DeprecationWarning):
        shared.default_update = shared + 1
        stream.default_update, _ = pt.random.normal(shared, rng=stream, return_next_rng=True)
    _, drawn = pt.random.normal(0, 1, rng=stream, return_next_rng=True)
    for out, private in ((a + shared, [a]), (a + shared, []), (drawn, [])):
        with pytest.raises(ModelRefusedError, match="default_update"):
            gate.compile_graph([a], out, private=private, mode=gate.PLAIN_MODE, random=True)


class Alike(Mode):
    """Any subclass may do more."""


def show(*args):
    """A mode may call a function for each node."""


REFUSED_MODES = [
    NanGuardMode(nan_is_error=True, inf_is_error=True, big_is_error=False),
    DebugMode(),
    MonitorMode(post_func=show),
    Alike("py"),
    Mode(VMLinker(callback=show)),
    Mode("jax"),
]


@pytest.mark.parametrize("mode", REFUSED_MODES, ids=lambda mode: type(mode).__name__)
def test_a_mode_that_looks_at_numbers_is_refused_before_a_row_is_read(mode, monkeypatch):
    """Else whether it stops is about one record; so also where PyTensor's settings have it."""
    monkeypatch.setattr(model_module, "read", None)
    with pytest.raises(ValueError, match=type(mode).__name__):
        RecordModel(model_of("look-up"), compile_kwargs={"mode": mode})
    monkeypatch.setattr(fast_forms, "get_mode", lambda given: mode if given is None else get_mode(given))
    with pytest.raises(ValueError, match=type(mode).__name__):
        RecordModel(model_of("look-up"))


@pytest.mark.parametrize("linker", ["py", "vm", "cvm", "numba"])
def test_plain_modes_are_taken(linker):
    assert RecordModel(model_of("look-up"), compile_kwargs={"mode": Mode(linker)}).n == N


def test_python_computes_no_fused_ops():
    """These computed a length as a number of Python's, and stopped from 128 on, beside an int8."""
    x, nodes, mode = pt.vector("x"), {}, Mode("py", "fast_run")
    for name, compiled in (("plain", pytensor.function), ("gate", gate.compile_graph)):
        given = {"private": [x]} if name == "gate" else {}
        function = compiled([x], pt.exp(x * (2 * x.shape[0] - 1)), mode=mode, **given)
        nodes[name] = sum(isinstance(node.op.scalar_op, ps.Composite) for node in elementwise(function))
    assert nodes["gate"] == 0 < nodes["plain"]


def elementwise(function):
    return [node for node in function.maker.fgraph.toposort() if isinstance(node.op, Elemwise)]


@pytest.mark.parametrize("name", ["profile", "updates", "givens", "no_default_updates", "trusted"])
def test_nothing_else_is_said_to_the_compiler(name, monkeypatch):
    monkeypatch.setattr(model_module, "read", None)
    with pytest.raises(ValueError, match=name):
        RecordModel(model_of("look-up"), compile_kwargs={name: True})


def test_sums_of_more_columns_than_numpy_takes_operands():
    """PyTensor merges a loop's sums into one: 31 columns were refused, as if rows went by their place."""
    x = np.random.default_rng(0).normal(size=(N, 70))
    with pm.Model() as model:
        b = pm.Normal("b", shape=70)
        pm.Normal("y", sum(b[k] * x[:, k] for k in range(70)), 1, observed=x[:, 0])
    assert RecordModel(model).twins  # rows are verified, and their derivatives are compiled
    v = pt.vector("v")
    wide = pt.add(*(v * k for k in range(300)))
    for mode in (gate.CHECK_MODE, gate.PLAIN_MODE):
        found = gate.compile_graph([v], wide, private=[v], mode=mode)
        np.testing.assert_allclose(found([1.0, 2.0]), [44850, 89700])
