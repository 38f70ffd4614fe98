"""The compiled cluster: a system that is advanced by slots; `elastiqueue.models.cluster.parameters` says what it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.cluster.kernels import (
    BEST_FIT,
    EXCESS,
    HEAD,
    JOBS,
    JSQ,
    MAXWEIGHT,
    NO_JOB,
    POWER_OF_D,
    RANDOM,
    SLOT,
    STRIDE,
    TAIL,
    THIRD,
    UNROLLED,
    WITH_REPLACEMENT,
    Fixed,
    Shape,
    State,
    advance,
)
from elastiqueue.models.cluster.parameters import MAX_SLOTS, ClusterParameters, columns
from elastiqueue.sampling.discrete import tables

REACH = tuple(2 * 4**k for k in range(5))  # rows for the oldest jobs of a type: the next of these
MAX_WAITING = 2**30  # places in the rings of all queues: 8 GiB


class Cluster:
    """A cluster at some slot, empty at first. `words` (uint64, shape (4,)) starts its random numbers.

    Slots, sizes and backlogs are packed into integers: a run has at most `MAX_SLOTS` = 2^31 slots, a job at most
    2^31 - 1 slots of work, the backlog of a type at a server is at most `ClusterParameters.largest_backlog`, and the
    longest queue must leave the rings of all queues within `MAX_WAITING` places. Beyond, ValueError.
    """

    def __init__(self, parameters: ClusterParameters, words: NDArray[np.uint64]) -> None:
        self.parameters = p = parameters
        servers, types = p.servers, p.types
        reach = p.reach()
        if max(reach) > REACH[-1]:
            raise ValueError(
                f"configurations: must serve at most {REACH[-1]} jobs of a type at a server, not {max(reach)}"
            )
        heads = next(k for k, rows in enumerate(REACH) if rows >= max(reach))
        count = max(len(own) for own in p.configurations)
        tiles = -(-servers // STRIDE)
        self._group = JOBS + REACH[heads]
        rows = types * self._group
        biased = len({len(own) for own in p.configurations}) > 1
        width = types + biased  # rows of a configuration
        self._tile = (rows + count * width + 1) * STRIDE
        self._most = max(jobs.values[-1] for jobs in p.arrivals) if p.level == "job" else 0
        lanes = np.zeros((tiles, self._tile // STRIDE, STRIDE), np.int32)
        for j in range(types):
            lanes[:, j * self._group + JOBS : (j + 1) * self._group] = NO_JOB
        bits = 1 << np.arange(tiles * STRIDE) % 16
        bits[servers:] = 0
        lanes[:, -1] = bits.reshape(tiles, STRIDE)
        configurations = np.zeros((count, width, tiles * STRIDE), np.int32)
        first = 0
        for number, own in zip(p.counts, p.configurations, strict=True):
            configurations[: len(own), :types, first : first + number] = np.array(own)[:, :, None]
            configurations[len(own) :, types:, first : first + number] = -1  # no such configuration: it never wins
            first += number
        lanes[:, rows:-1] = configurations.reshape(-1, tiles, STRIDE).swapaxes(0, 1)
        if count == 1 and p.scheduling == "maxweight":
            lanes[:, 1 : rows : self._group] = lanes[:, rows:-1]
        lanes[-1, : rows : self._group, servers - (tiles - 1) * STRIDE :] = 2**31 - 1  # no job goes beyond the last
        memory = np.empty(lanes.size + 16, np.int32)
        shift = -memory.ctypes.data % 64 // 4  # rows begin at cache lines
        memory[shift : shift + lanes.size] = lanes.reshape(-1)
        routing = {"jsq": JSQ, "random": RANDOM, "power_of_two_with_replacement": WITH_REPLACEMENT}
        have, need = p.integer_resources()
        sizes = list(dict.fromkeys(p.sizes))  # types of the same distribution share its table, which stays in the cache
        self._fixed = Fixed(
            reach=np.array(reach, np.int64),
            direction=np.array(p.c, np.float64),
            arrivals=tables(p.arrivals),
            sizes=tables(sizes),
            size_table=np.array([sizes.index(size) for size in p.sizes], np.int64),
            need=np.array(need, np.int64).reshape(types, -1),
            have=np.array([have[k] for k in p.classes], np.int64).reshape(servers, -1),
            servers=servers,
            routing=routing.get(p.routing, POWER_OF_D),
            draws=p.draws,
            scheduling=MAXWEIGHT if p.scheduling == "maxweight" else BEST_FIT,
            largest=p.largest_backlog,
            norm_interval=p.norm_interval,
            number=count,
            most=self._most,
            tile=self._tile,
            job_level=p.level == "job",
            shape=Shape((0,) * types, (0,) * min(count, UNROLLED + 1), (0,) * heads, (0,) * biased, THIRD, EXCESS),
        )
        random_words = np.zeros(types + tiles * STRIDE // 8, np.uint64)
        self._state = State(
            words=np.array(words, np.uint64),
            numbers=np.zeros(3, np.int64),
            lanes=memory[shift : shift + lanes.size],
            backlog=np.zeros(types, np.int64),
            least=np.zeros(types, np.int32),
            random_words=random_words,
            random_bytes=random_words.view(np.uint8),
            order=np.arange(servers, dtype=np.int64),
            ends=np.zeros((types * servers, 2), np.int64),
            ring=np.zeros((types * servers, 1), np.int64),
            counts=np.zeros(3 + 2 * types, np.int64),
            ended_at=np.zeros(types * servers, np.int64),
        )
        if p.level == "job":
            self._grow(max(16, self._most))
        self._run(0, np.zeros(len(columns(p))), np.zeros(0), 0)  # the schedule of the first slot

    def _grow(self, room: int) -> None:
        """Room for so many jobs in each queue, or more; results do not depend on it."""
        s = self._state
        queues, old = s.ring.shape
        new = 1 << (room - 1).bit_length()
        if queues * new > MAX_WAITING:
            raise ValueError(
                f"jobs: {room:,} at one server: at most {MAX_WAITING // queues:,} can wait at each of {queues:,} queues"
            )
        ring = np.zeros((queues, new), np.int64)
        ring[:, :old] = np.take_along_axis(s.ring, s.ends[:, HEAD, None] + np.arange(old) & old - 1, axis=1)
        s.ends[:, TAIL] -= s.ends[:, HEAD]
        s.ends[:, HEAD] = 0
        self._state = s._replace(ring=ring)

    def _run(self, slots: int, totals: NDArray[np.float64], samples: NDArray[np.float64], interval: int) -> int:
        done: int = advance(self._state, self._fixed, slots, totals, samples, interval)
        return done

    @property
    def slot(self) -> int:
        """Slots simulated so far."""
        return int(self._state.numbers[SLOT])

    def backlogs(self) -> NDArray[np.int64]:
        """q_{j,m}, shape (types, servers), in slots of work."""
        return self._rows(0)

    def schedules(self) -> NDArray[np.int64]:
        """The configuration that each server uses next, shape (types, servers)."""
        return self._rows(1)

    def _rows(self, row: int) -> NDArray[np.int64]:
        p = self.parameters
        lanes = self._state.lanes.reshape(-1, self._tile // STRIDE, STRIDE)
        return np.array(
            [lanes[:, j * self._group + row, :].reshape(-1)[: p.servers] for j in range(p.types)], dtype=np.int64
        )

    def jobs(self, j: int, m: int) -> list[tuple[int, int]]:
        """Remaining size and arrival slot of the type-j jobs at server m (both from 0), in order of arrival."""
        s, queue, reach = self._state, j * self.parameters.servers + m, self.parameters.reach()[j]
        tile, lane = divmod(m, STRIDE)
        position = tile * self._tile + (j * self._group + JOBS) * STRIDE + lane
        head, tail = s.ends[queue].tolist()
        jobs = []
        for k in range(tail - head):
            job = int(s.ring[queue, head + k & s.ring.shape[1] - 1])
            remaining = job & 0x7FFFFFFF
            if k < reach:
                remaining = int(s.lanes[position + k * STRIDE])
            if k == 0 and reach == 1:
                remaining = int(s.lanes[position - JOBS * STRIDE]) - remaining
            jobs.append((remaining, job >> 32))
        return jobs

    def advance(
        self, slots: int, totals: NDArray[np.float64] | None = None, sample_interval: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Simulate so many slots more and add to the totals (float64, by `columns`; new ones if None).

        Returns the totals, and <bold c, q> at the end of every `sample_interval`-th slot (0: none). A warm-up is a
        call whose totals are thrown away, batches are calls with totals of their own. Raises ValueError where a number
        leaves its range: see the class; of backlogs only an unstable system does.
        """
        p = self.parameters
        if not 0 <= slots <= MAX_SLOTS - self.slot:
            raise ValueError(f"slots = {slots}: must be >= 0 and end by slot {MAX_SLOTS:,}, after {self.slot:,}")
        if totals is None:
            totals = np.zeros(len(columns(p)))
        stretch = max(1, 2**31 // (p.servers * p.heaviest))  # sums of backlogs and of responses stay below 2^63
        samples: list[NDArray[np.float64]] = []
        left = slots
        while left > 0:
            ask, start = min(left, stretch), self.slot
            room = np.zeros(ask // sample_interval + 1 if sample_interval else 0)
            done = self._run(ask, totals, room, sample_interval)
            if done < 0:
                raise ValueError(
                    f"backlog of job type {-done}: is above {p.largest_backlog:,} at a server in slot {self.slot:,}, "
                    "the largest that can be simulated; is the load stable?"
                )
            if sample_interval:
                taken = -(-(start + done) // sample_interval) - -(-start // sample_interval)
                samples.append(room[:taken])
            left -= done
            if done < ask:
                self._grow(2 * self._state.ring.shape[1])
        return totals, np.concatenate(samples) if samples else np.zeros(0)
