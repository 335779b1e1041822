"""Random graphs of the Ops that row types have rules for, over sources with records and public ones.

A graph grows Op by Op from variables that are already in it; an Op that its inputs do not fit is dropped.
Values are computed along with it (`Oracle`), so that axes, indices and sizes fit more often than not.
"""

import warnings

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.conditional import ifelse
from pytensor.raise_op import Assert
from pytensor.scan.basic import scan

from pymc_dp.records.row_types import Mixed, Rows, Typing
from tests.records.row_oracle import K, N, Oracle, Persons

PLAIN = Mode(linker="py", optimizer=None)
MAX_SIZE, MAX_NDIM = 400, 4
UNARY = [pt.exp, pt.neg, pt.tanh, pt.isnan, pt.sign, pt.abs, pt.sqr, pt.sigmoid, pt.softplus, pt.log1p]
BINARY = [pt.add, pt.sub, pt.mul, pt.true_div, pt.maximum, pt.eq, pt.lt, pt.logaddexp, pt.pow, pt.ge]
REDUCTIONS = [pt.sum, pt.prod, pt.max, pt.min, pt.mean, pt.all, pt.any, pt.argmax, pt.logsumexp, pt.std]
SWEEPS = [pt.cumsum, pt.cumprod, pt.sort, pt.argsort, pt.special.softmax, pt.special.log_softmax, pt.flip]


class Grown:
    """A graph, its variables by age, and one way to grow for each kind of Op."""

    def __init__(self, seed: int, add_remove: bool = False):
        self.rng = np.random.default_rng(seed)
        self.persons = Persons(seed, static=not add_remove and bool(self.rng.random() < 0.7))
        if add_remove:  # tables as long as there happen to be records would fit no other number of them
            public = self.persons.public
            self.persons.public = {v: value for v, value in public.items() if N not in value.shape}
        self.oracle = Oracle(self.persons.values | self.persons.public)
        self.pool = [*self.persons.axes, *self.persons.public]
        self.typed = self.persons.sources
        self.ways = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("way_")]

    def grow(self, size: int) -> list:
        """Make `size` variables; return them."""
        made: list = []
        tries = 0
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            while len(made) < size and tries < 30 * size:
                tries += 1
                try:
                    new = self.pick_way()()
                    new = list(new) if isinstance(new, list | tuple) else [new]
                    self.oracle.add(new)
                except Exception:
                    continue
                for v in new:
                    value = np.asarray(self.oracle.value(v))
                    if v.owner is None or value.size > MAX_SIZE or value.ndim > MAX_NDIM:
                        continue
                    made.append(v)
                    # What is made of mixed records is mixed: few of them are enough.
                    typed = self.typed[v] = Typing(N)([v], self.persons.sources)[v]
                    if not isinstance(typed, Mixed) or self.rng.random() < 0.1:
                        self.pool.append(v)
        return made

    # choices

    def pick_way(self):
        return self.ways[self.rng.integers(len(self.ways))]

    def one_of(self, options):
        return options[self.rng.integers(len(options))]

    def any(self, kind=None, ndim=None):
        """A variable of some kind or number of axes: young ones more often, and those with records."""
        fits = [
            v
            for v in self.pool
            if (kind is None or np.dtype(v.type.dtype).kind in kind) and (ndim is None or v.type.ndim in ndim)
        ]
        weight = np.linspace(1, 3, len(fits)) * [1 + 3 * isinstance(self.typed[v], Rows) for v in fits]
        return fits[self.rng.choice(len(fits), p=weight / weight.sum())]

    def tensor(self, kind=None):
        return self.any(kind, ndim=range(1, MAX_NDIM + 1))

    def like(self, v):
        """A variable of the same shape, if there is one."""
        shape = self.shape(v)
        return self.one_of([u for u in self.pool if self.shape(u) == shape])

    def shape(self, v):
        return np.shape(self.oracle.value(v))

    def axis(self, v):
        k = int(self.rng.integers(v.type.ndim))
        return k - v.type.ndim if self.rng.random() < 0.3 else k

    def axes(self, v):
        if self.rng.random() < 0.15:
            return None
        count = int(self.rng.integers(1, v.type.ndim + 1)) if self.rng.random() < 0.4 else 1
        return tuple(int(a) for a in self.rng.choice(v.type.ndim, size=count, replace=False))

    def size_of(self, v, axis):
        """The length of an axis, as a number or symbolic."""
        return self.shape(v)[axis] if self.rng.random() < 0.5 else v.shape[axis]

    # entry by entry

    def way_unary(self):
        return self.one_of(UNARY)(self.any())

    def way_binary(self):
        u = self.any()
        return self.one_of(BINARY)(u, self.like(u) if self.rng.random() < 0.6 else self.any())

    def way_broadcast(self):
        u, v = self.tensor(), self.any(ndim=[0, 1])
        return self.one_of(BINARY)(u, v.dimshuffle(*range(v.type.ndim), *["x"] * int(self.rng.integers(2))))

    def way_switch(self):
        u = self.any()
        return pt.switch(self.any("b"), u, self.like(u))

    def way_cast(self):
        return pt.cast(self.any("bi"), self.one_of(["int64", "float64", "int8", "bool"]))

    def way_compare(self):
        return self.one_of([pt.gt, pt.le, pt.eq])(self.any("f"), self.one_of([0.0, 0.5]))

    def way_index_of(self):
        """An index variable."""
        v = self.any("i")
        return self.one_of([lambda v: v % K, lambda v: pt.clip(v, 0, K - 1), lambda v: K - 1 - v % K])(v)

    def way_assert(self):
        return Assert("never")(self.any(), pt.le(self.persons_public("theta"), 99.0))

    def persons_public(self, name):
        return next(v for v in self.persons.public if v.name == name)

    # axes

    def way_dimshuffle(self):
        v = self.tensor()
        order: list = list(self.rng.permutation(v.type.ndim))
        if self.rng.random() < 0.5:
            order.insert(int(self.rng.integers(len(order) + 1)), "x")
        return v.dimshuffle(*[o if o == "x" else int(o) for o in order])

    def way_squeeze(self):
        return pt.squeeze(self.tensor())

    def way_reduce(self):
        v, f = self.tensor(), self.one_of(REDUCTIONS)
        axes = self.axis(v) if f is pt.argmax else self.axes(v)
        return f(v, axis=axes, keepdims=bool(self.rng.random() < 0.3))

    way_reduce_too = way_reduce

    def way_sweep(self):
        v = self.tensor()
        return self.one_of(SWEEPS)(v, axis=self.axis(v))

    def way_cumulative(self):
        v = self.tensor()
        return pt.cumsum(v, axis=self.one_of([self.axis(v), 0, None]))

    def way_difference(self):
        v = self.tensor()
        return pt.diff(v, axis=self.axis(v)) if self.rng.random() < 0.5 else pt.roll(v, 1, axis=self.axis(v))

    def way_join(self):
        v = self.tensor()
        return pt.concatenate([v, self.like(v)], axis=self.axis(v))

    def way_stack(self):
        v = self.any()
        return pt.stack([v, self.like(v)], axis=int(self.rng.integers(v.type.ndim + 1)))

    def way_split(self):
        v = self.tensor()
        axis = self.axis(v)
        length = self.shape(v)[axis]
        return list(pt.split(v, [1, length - 1], n_splits=2, axis=axis))

    # indices

    def part(self, length):
        """A basic index of an axis, the whole axis more often than not."""
        return self.one_of(
            [
                *[slice(None)] * 5,
                slice(None, None, -1),
                slice(1, None),
                slice(None, -1),
                slice(None, length),
                slice(None, None, 2),
                0,
                int(self.rng.integers(-length, length)),
                self.any("i", ndim=[0]),
                slice(None, self.any("i", ndim=[0])),
                slice(0, None, 1),
            ]
        )

    def way_subtensor(self):
        v = self.tensor()
        index = [self.part(length) for length in self.shape(v)]
        if self.rng.random() < 0.2:
            index.insert(int(self.rng.integers(len(index) + 1)), None)
        if self.rng.random() < 0.2:
            index = [Ellipsis, *index[-1:]]
        return v[tuple(index)]

    way_subtensor_too = way_subtensor

    def positions(self, v, axis):
        """Something like 0, 1, ... as long as an axis is."""
        length = self.size_of(v, axis)
        found = self.one_of(
            [
                pt.arange(length),
                pt.arange(length),
                pt.arange(0, length, 1),
                pt.arange(length)[::-1],
                pt.arange(length) - 1,
                pt.arange(1, length + 1) - 1,
                pt.arange(length) // 2,
                pt.arange(length - 1, -1, -1),
                pt.arange(length, dtype="int8"),
                pt.cast(pt.arange(length), "int32"),
                pt.arange(length) * 0,
            ]
        )
        return found[:, None] if self.rng.random() < 0.15 else found

    def place(self, v, axis):
        """An index of an axis, perhaps an array of indices or a mask."""
        kind = self.rng.random()
        if kind < 0.4:
            return slice(None) if self.rng.random() < 0.8 else self.part(self.shape(v)[axis])
        if kind < 0.65:
            return self.any("i", ndim=[0, 1, 1, 2])
        if kind < 0.9:
            return self.positions(v, axis)
        return self.any("b", ndim=[1])

    def places(self, v):
        index = [self.place(v, axis) for axis in range(v.type.ndim)]
        return tuple(index[: 1 + int(self.rng.integers(len(index)))])

    def way_advanced(self):
        v = self.tensor()
        return v[self.places(v)]

    way_advanced_too = way_advanced
    way_advanced_again = way_advanced

    def way_lookup(self):
        v = self.tensor()
        return v[self.any("i", ndim=[1, 2])]

    def way_lookup_by_positions(self):
        v = self.any(ndim=[2, 3])
        index = [self.positions(v, 0), self.any("i", ndim=[1, 2])]
        if self.rng.random() < 0.3:
            index = [self.any("i", ndim=[1, 2]), self.positions(v, 1)]
        return v[tuple(index)]

    def way_mask(self):
        v = self.tensor()
        return v[(slice(None),) * int(self.rng.integers(v.type.ndim)) + (self.any("b", ndim=[1, 2]),)]

    def way_take_along(self):
        v = self.tensor()
        return pt.take_along_axis(v, self.any("i", ndim=[v.type.ndim]), axis=self.axis(v))

    def way_write(self):
        v = self.one_of([self.tensor("f"), self.tensor("f"), pt.zeros((N, 3)), pt.zeros((3, N)), pt.zeros(N)])
        self.oracle.add([v])
        if self.rng.random() < 0.5:
            part = v[tuple(self.part(length) for length in self.shape(v))]
        else:
            part = v[self.places(v)]
        self.oracle.add([part])
        shape = self.shape(part)
        fits = [
            u for u in self.pool if u.type.dtype == v.type.dtype and self.shape(u) in (shape, shape[1:], ())
        ]
        new = self.one_of(fits)
        return part.set(new) if self.rng.random() < 0.5 else part.inc(new)

    way_write_too = way_write

    def way_write_row(self):
        v = self.tensor("f")
        return pt.set_subtensor(v[..., 0], self.one_of([0.5, v[..., -1], self.any("f", ndim=[1])]))

    # products

    def way_dot(self):
        u = self.any("f", ndim=[1, 2])
        length = self.shape(u)[-1]
        return pt.dot(
            u, self.one_of([v for v in self.pool if v.type.ndim in (1, 2) and self.shape(v)[0] == length])
        )

    def way_matmul(self):
        u = self.any("f", ndim=[1, 2, 3])
        length = self.shape(u)[-1]
        fits = [
            v
            for v in self.pool
            if v.type.ndim in (1, 2, 3) and self.shape(v)[-2 if v.type.ndim > 1 else 0] == length
        ]
        return pt.matmul(u, self.one_of(fits))

    def way_einsum(self):
        u, v = self.any("f", ndim=[1, 2]), self.any("f", ndim=[1, 2])
        names = "abcd"
        left = [names[i] for i in range(u.type.ndim)]
        right = []
        for k, length in enumerate(self.shape(v)):
            same = [
                n for n, size in zip(left, self.shape(u), strict=True) if size == length and n not in right
            ]
            right.append(self.one_of(same) if same and self.rng.random() < 0.7 else names[2 + k])
        letters = sorted({*left, *right})
        out = [n for n in letters if self.rng.random() < 0.6]
        return pt.einsum(f"{''.join(left)},{''.join(right)}->{''.join(self.rng.permutation(out))}", u, v)

    def way_tensordot(self):
        u, v = self.tensor("f"), self.tensor("f")
        a, b = int(self.rng.integers(u.type.ndim)), int(self.rng.integers(v.type.ndim))
        return pt.tensordot(u, v, axes=[[a], [b]])

    def way_outer(self):
        return pt.outer(self.any("f", ndim=[1]), self.any("f", ndim=[1]))

    def way_linear_algebra(self):
        square = [v for v in self.pool if v.type.ndim >= 2 and len({*self.shape(v)[-2:]}) == 1]
        a = self.one_of(square)
        kind = self.rng.integers(5)
        if kind == 0:
            return pt.linalg.det(a)
        if kind == 1:
            return pt.diagonal(a, axis1=-2, axis2=-1)
        if kind == 2:
            return pt.tril(a)
        length = self.shape(a)[-1]
        public = self.persons_public("A") if length == 3 else self.persons_public("square")
        if kind == 3:
            fits = [v for v in self.pool if v.type.ndim == 2 and self.shape(v)[0] == length]
            return pt.linalg.solve_triangular(public, self.one_of(fits), lower=True, b_ndim=2)
        return pt.linalg.solve(public, self.one_of([v for v in self.pool if self.shape(v)[:1] == (length,)]))

    def way_diagonal(self):
        v = self.any(ndim=[2, 3, 4])
        a, b = (int(k) for k in self.rng.choice(v.type.ndim, size=2, replace=False))
        return pt.diagonal(v, axis1=a, axis2=b)

    # shapes

    def way_reshape(self):
        v = self.tensor()
        shape, ndim = self.shape(v), v.type.ndim
        kind = self.rng.integers(7)
        sizes = [self.size_of(v, k) for k in range(ndim)]
        if kind == 0:
            return v.flatten(int(self.rng.integers(1, ndim + 1)))
        if kind == 1:
            cut = int(self.rng.integers(ndim + 1))
            return v.reshape((*sizes[:cut], -1))
        if kind == 2:
            cut = int(self.rng.integers(ndim + 1))
            return v.reshape((-1, *sizes[cut:]))
        if kind == 3:
            return v.reshape(tuple(sizes[k] for k in self.rng.permutation(ndim)))
        if kind == 4:
            sizes.insert(int(self.rng.integers(ndim + 1)), 1)
            return v.reshape(tuple(sizes))
        if kind == 5:
            like = self.one_of([u for u in self.pool if np.prod(self.shape(u)) == np.prod(shape)])
            return v.reshape(like.shape, ndim=like.type.ndim)
        k = int(self.rng.integers(ndim))
        factors = {4: (2, 2), 8: (2, 4), 10: (2, 5), 15: (3, 5), 6: (3, 2)}[shape[k]]
        return v.reshape((*sizes[:k], *factors, *sizes[k + 1 :]))

    way_reshape_too = way_reshape

    def way_join_dims(self):
        v = self.tensor()
        start = int(self.rng.integers(v.type.ndim))
        return pt.join_dims(v, start_axis=start, n_axes=int(self.rng.integers(0, v.type.ndim - start + 1)))

    def way_split_dims(self):
        v = self.tensor()
        k = int(self.rng.integers(v.type.ndim))
        length = self.shape(v)[k]
        sizes = {4: (2, 2), 8: (2, 4), 10: (2, 5), 15: (3, 5), 6: (3, 2)}.get(length, (length, 1))
        return pt.split_dims(v, axis=k, shape=sizes)

    def way_alloc(self):
        v, like = self.any(ndim=[0, 1, 2]), self.any(ndim=[1, 2, 3])
        return pt.alloc(v, *[self.size_of(like, k) for k in range(like.type.ndim)])

    def way_alloc_around(self):
        v = self.any(ndim=[1, 2])
        sizes = [self.size_of(v, k) for k in range(v.type.ndim)]
        return pt.alloc(v, self.one_of([2, N, v.shape[0]]), *sizes)

    def way_broadcast_to(self):
        v, like = self.any(ndim=[0, 1, 2]), self.any(ndim=[1, 2, 3])
        return pt.broadcast_to(v, like.shape)

    def way_alike(self):
        return self.one_of([pt.zeros_like, pt.ones_like])(self.any())

    def way_repeat(self):
        v = self.tensor()
        if self.rng.random() < 0.5:
            return pt.repeat(v, 2, axis=self.axis(v))
        return pt.tile(v, [int(k) for k in self.rng.integers(1, 3, size=v.type.ndim)])

    def way_shape(self):
        v = self.tensor()
        return self.one_of([v.shape[self.axis(v)], v.shape, v.size, pt.arange(v.shape[0])])

    def way_arange(self):
        return pt.arange(self.any("i", ndim=[0]))

    def way_values(self):
        v = self.tensor("bi")
        return self.one_of(
            [lambda: pt.nonzero(v)[0], lambda: pt.unique(v), lambda: pt.bincount(pt.flatten(v) % K)]
        )()

    def way_search(self):
        return pt.searchsorted(pt.sort(self.any("f", ndim=[1])), self.tensor("f"))

    # graphs inside

    def step(self, dummies):
        """Something that a graph inside may do."""
        u, *others = dummies
        v = others[-1] if others else u
        options = [
            lambda: pt.tanh(u) + v,
            lambda: u * v,
            lambda: u[::-1] + v,
            lambda: u - v.mean(axis=-1, keepdims=True),
            lambda: u + v.sum(axis=0),
            lambda: u * v[..., :1],
            lambda: pt.switch(u > 0, v, u),
            lambda: u * 0 + v,
        ]
        return self.one_of(options)()

    def way_inner_graph(self):
        u = self.tensor("f")
        inputs = [u, self.like(u)] if self.rng.random() < 0.7 else [u, self.any("f", ndim=[0, 1])]
        dummies = [v.type() for v in inputs]
        out = self.step(dummies)
        if self.rng.random() < 0.3:
            out = OpFromGraph(dummies, [out])(*dummies)
        return OpFromGraph(dummies, [out, dummies[0].sum(axis=-1)])(*inputs)

    def way_if_else(self):
        u = self.any()
        flag = self.any("b", ndim=[0, 1])
        return ifelse(flag[0] if flag.type.ndim else flag, u, self.like(u))

    def way_scan_of_states(self):
        u = self.tensor("f")
        states = [u, *([self.like(u)] if self.rng.random() < 0.6 else [])]
        beside = self.like(u)
        if self.rng.random() < 0.5:
            states, beside = [u], self.any("f", ndim=[0, 1])

        def step(*args):
            *old, beside = args
            new = [self.step([s, beside]) for s in old]
            return tuple(reversed(new)) if len(new) > 1 else new[0]

        return scan(
            step,
            outputs_info=[pt.cast(s, "float64") for s in states],
            non_sequences=[beside],
            n_steps=self.one_of([2, 3, self.any("i", ndim=[0])]),
            return_updates=False,
            mode=PLAIN,
        )

    way_scan_of_states_too = way_scan_of_states

    def way_scan_of_sequence(self):
        u = self.any("f", ndim=[1, 2, 3])
        first = self.one_of([None, u[0] * 0, u[0], self.any("f", ndim=[u.type.ndim - 1])])
        beside = self.one_of([[], [self.any("f", ndim=[0, 1])]])

        def step(s, *rest):
            return self.step([s, *rest]) if rest else s * 2

        return scan(
            step, sequences=[u], outputs_info=[first], non_sequences=beside, return_updates=False, mode=PLAIN
        )
