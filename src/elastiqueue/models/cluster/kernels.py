"""The cluster, compiled: one pass over rows of servers serves them all, and the next pass schedules them.

Per type there are rows over servers: backlog, schedule, and the remaining sizes of the few oldest jobs, which are all
that a schedule can reach (of one job: the work behind it, which service does not change). The rows stand at constant
distances in one array of 32 bits, and are gone through without branches, so that both passes work on vectors; what
happens at a server is a bit. The jobs of a queue are in a ring. What a slot draws in any case it draws at once: a word
per type for the number of its jobs, a byte per server for ties.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from elastiqueue.sampling.discrete import Tables, below, draw, invert
from elastiqueue.sampling.rng import ones, step

JSQ, POWER_OF_D, WITH_REPLACEMENT, RANDOM = range(4)
MAXWEIGHT, BEST_FIT = range(2)

VECTOR = 16  # servers that are gone through at once
# Servers per tile, the distance of rows. Measured: 112 is faster than 128 by 3 %, presumably since a read is held back
# by a recent write whose address agrees in the last 12 bits.
STRIDE = 112
# Rows of a type: backlog, schedule, remaining sizes of the oldest jobs (where at most one is served: the work behind).
JOBS = 2
NO_JOB = -1  # in the rows of oldest jobs where there is none
UNROLLED = 8  # up to so many configurations the scheduling pass is unrolled and vectorised
THIRD, EXCESS = 85, 255  # of a random byte
_U1, _U2, _U4, _U56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_M1, _M2, _M4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_HIGH = np.uint64((1 << STRIDE - 64) - 1)  # the servers of a tile beyond the 64th
_16_BITS = np.int64(0xFFFF)

# Positions in the totals, which are followed by backlog_j, arrived_j, served_j for each type.
SLOTS, WEIGHTED, PARALLEL, NORM_SLOTS, PERPENDICULAR, RESPONSE, COMPLETIONS, ARRIVALS = range(8)
SLOT, SCHEDULED, LONGEST = range(3)  # positions in State.numbers
# Positions in State.counts, which are followed by backlog_j and arrived_j: integers that end up in the totals.
RESPONSE_SUM, COMPLETED, ARRIVED, PER_TYPE = range(4)
HEAD, TAIL = range(2)


class State(NamedTuple):
    """What changes.

    Rows of `lanes` per tile of servers: for each type q, s and the oldest jobs (see `JOBS`); then the configurations
    (per type, and a bias of -1 where a server has no such configuration, if classes differ in that); then the bit
    m mod 16 of server m, which is 0 beyond the last.
    """

    words: NDArray[np.uint64]  # the generator
    numbers: NDArray[np.int64]  # SLOT .. LONGEST
    lanes: NDArray[np.int32]
    backlog: NDArray[np.int64]  # J: Q_j
    least: NDArray[np.int32]  # J: the least q_{j,m} after the last service, which is what arrivals meet
    random_words: NDArray[np.uint64]  # of the slot: a word per type for its jobs, then a byte per server for ties
    random_bytes: NDArray[np.uint8]  # the same memory
    order: NDArray[np.int64]  # M
    ends: NDArray[np.int64]  # J M, 2: HEAD, TAIL of the queues, as counted from the first job on
    ring: NDArray[np.int64]  # J M, capacity (a power of 2): arrival slot << 32 | size of job k at k mod capacity
    counts: NDArray[np.int64]  # work space
    ended_at: NDArray[np.int64]  # J M, work space


class Shape(NamedTuple):
    """What a compiled kernel is made for: tuples that matter by their lengths; and two numbers, see `_schedule`."""

    types: tuple[int, ...]
    configs: tuple[int, ...]  # at most UNROLLED + 1
    heads: tuple[int, ...]  # of length k: there are 2 * 4^k rows for the oldest jobs
    biased: tuple[int, ...]  # one if classes differ in the number of configurations
    third: int
    excess: int


class Fixed(NamedTuple):
    """What does not change."""

    reach: NDArray[np.int64]  # J: rows of oldest jobs in use
    direction: NDArray[np.float64]  # J
    arrivals: Tables
    sizes: Tables
    size_table: NDArray[np.int64]  # J: which of the tables
    need: NDArray[np.int64]  # J, resources
    have: NDArray[np.int64]  # M, resources
    servers: int
    routing: int
    draws: int
    scheduling: int
    largest: int  # backlog of a type at a server
    norm_interval: int
    number: int  # of configurations
    most: int  # jobs of a type that arrive in a slot
    tile: int  # numbers per tile
    job_level: bool
    shape: Shape


@intrinsic
def _equal(typing, z, position, other):
    """The bits of those of the 64 lanes from `position` on that are equal to `other`, which is a number or, if it is a
    position (uint64), as many lanes.

    In LLVM's own language, where comparing 64 lanes gives a word at once. Loops in Python would add up bits lane by
    lane, and end with jumps that cannot be predicted.
    """

    def code(context, builder, signature, arguments):
        array, left, right = arguments
        row = ir.VectorType(ir.IntType(32), 64)
        memory = context.make_array(z)(context, builder, array).data

        def read(start):
            return builder.load(builder.bitcast(builder.gep(memory, [start]), row.as_pointer()), align=4)

        if other == uint64:
            numbers = read(right)
        else:
            first = builder.insert_element(ir.Constant(row, ir.Undefined), right, ir.IntType(32)(0))
            numbers = builder.shuffle_vector(first, ir.Constant(row, ir.Undefined), ir.Constant(row, [0] * 64))
        return builder.bitcast(builder.icmp_signed("==", read(left), numbers), ir.IntType(64))

    return uint64(z, uint64, other if other == uint64 else z.dtype), code


@njit(cache=True)
def _lowest(bits):
    """Position of the lowest bit of a number that is not 0: the number of bits below it."""
    x = np.uint64(np.int64(bits) & -np.int64(bits)) - np.uint64(1)
    x -= (x >> _U1) & _M1  # LLVM takes these lines for what they are, one instruction that counts bits
    x = (x & _M2) + ((x >> _U2) & _M2)
    x = (x + (x >> _U4)) & _M4
    return (x * _SUM) >> _U56


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _serve(z, q, vectors, reach):
    """One slot of service of one type at the servers in so many vectors; their backlogs are at position q of the lanes.

    `reach` is the number of rows of oldest jobs. Up to 1, a server does its share whenever it has work, and a job ends
    where the backlog has come down to the work behind it: its remaining size need not be counted down. At the workload
    level (reach 0) the row stays -1. With more rows a job ends where a row is 0; it is -1 without a job.

    Returns the work done, the least backlog, and whether a job ends somewhere.
    """
    s, h = q + np.uint64(STRIDE), q + np.uint64(JOBS * STRIDE)
    n = vectors * np.uint64(VECTOR)
    zero = np.int32(0)
    served, ended, least = zero, zero, z[q]
    if reach <= 1:
        for m in range(n):
            done = min(z[s + m], z[q + m])
            left = np.int32(z[q + m] - done)
            z[q + m] = left
            served = np.int32(served + done)
            ended = np.int32(ended | np.int32(left == z[h + m]))
            least = min(least, left)
    else:
        for k in range(reach):
            rank = np.int32(k)
            for m in range(n):
                done = np.int32(np.int32(z[s + m] > rank) & np.int32(z[h + m] > zero))
                left = np.int32(z[h + m] - done)
                z[h + m] = left
                z[q + m] = np.int32(z[q + m] - done)
                served = np.int32(served + done)
                ended = np.int32(ended | np.int32(left == zero))
            h += np.uint64(STRIDE)
        for m in range(n):
            least = min(least, z[q + m])
    return np.int64(served), least, ended != zero


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _ends(z, q, reach):
    """The bits of those of 64 servers at which a job ends; their backlogs are at position q of the lanes."""
    h = q + np.uint64(JOBS * STRIDE)
    if reach == 1:
        return _equal(z, q, h)
    ends = np.uint64(0)
    for _ in range(reach):
        ends |= _equal(z, h, np.int32(0))
        h += np.uint64(STRIDE)
    return ends


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _amount(z, m, c, j, shape):
    """How many jobs of type j configuration c serves, or its bias (j = number of types), for the server at lane m."""
    row = len(shape.types) * (JOBS + (2 << 2 * len(shape.heads))) + c * (len(shape.types) + len(shape.biased)) + j
    return z[m + np.uint64(row * STRIDE)]


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _weight(z, m, c, shape):
    """The weight of configuration c for the server at lane m."""
    w = _amount(z, m, c, 0, shape) * z[m]
    for j in range(1, len(shape.types)):
        q = z[m + np.uint64(j * (JOBS + (2 << 2 * len(shape.heads))) * STRIDE)]
        w = np.int32(w + np.int32(_amount(z, m, c, j, shape) * q))
    return np.int32(w + _amount(z, m, c, len(shape.types), shape)) if len(shape.biased) > 0 else np.int32(w)


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _schedule(z, random, start, offset, n, shape):
    """MaxWeight for n servers of a tile, vectorised.

    A random byte x picks one of several best configurations: of two the second where x is odd, of three the third where
    x < third = 85, the second where x is larger and odd, of k > 3 the (x k >> 8)-th. Of three, x = excess = 255 is not
    shared, of more the lowest 256 mod k remainders of x k: returns the bit of each such server, for `_decide`. The two
    numbers are arguments since constants would be compared with bytes, eight lanes at a time, and be moved twice.
    """
    count, group = len(shape.configs), (JOBS + (2 << 2 * len(shape.heads))) * STRIDE
    zero, one, two = np.int32(0), np.int32(1), np.int32(2)
    third, excess = np.int32(shape.third), np.int32(shape.excess)
    unsettled = zero
    for i in range(np.uint64(n)):
        m = i + start
        x = np.int32(random[i + offset])
        second_wins, third_wins = np.int32(x & one), np.int32(x < third)
        for j in range(len(shape.types)):  # every weight is computed once: the compiler sees to that
            s = _amount(z, m, 0, j, shape)
            best, others = _weight(z, m, 0, shape), zero  # as good as the best before
            for c in range(1, count):
                w = _weight(z, m, c, shape)
                own = _amount(z, m, c, j, shape)
                if w > np.int32(best - (third_wins if others > zero else second_wins)):
                    s = own
                others = np.int32(others * np.int32(w <= best) + np.int32(w == best))
                best = max(best, w)
            if count > 3:
                left = np.int32(np.int32(x * np.int32(others + one)) >> 8)
                for c in range(count):
                    hit = np.int32(_weight(z, m, c, shape) == best)
                    own = _amount(z, m, c, j, shape)
                    if (hit != zero) & (left == zero) & (others > two):
                        s = own
                    left = np.int32(left - hit)
            z[m + np.uint64(j * group + STRIDE)] = s
        over = (others == two) & (x >= excess)
        if count > 3:
            threshold = zero
            for k in range(4, count + 1):
                threshold = np.int32(threshold + np.int32(np.int32(256 % k) * np.int32(others == np.int32(k - 1))))
            over = over | (np.int32(np.int32(x * np.int32(others + one)) & 255) < threshold)
        unsettled = np.int32(unsettled | np.int32(_amount(z, m, count, 0, shape) * np.int32(over)))
    return np.int64(unsettled) & _16_BITS


@njit(cache=True)
def _decide(z, words, byte, m, count, shape):
    """MaxWeight for the server at position m of the lanes, with any number of configurations."""
    best, ties = _weight(z, m, 0, shape), 1
    for c in range(1, count):
        w = _weight(z, m, c, shape)
        if w > best:
            best, ties = w, 1
        elif w == best:
            ties += 1
    left = 0
    if (ties == 3 and byte >= shape.excess) or (ties > 3 and (np.int64(byte) * ties) & 255 < 256 % ties):
        left = below(ties, words)
    elif ties > 3:
        left = (np.int64(byte) * ties) >> 8
    elif ties > 1:
        left = 2 if ties == 3 and byte < shape.third else np.int64(byte & 1)
    for c in range(count):
        if _weight(z, m, c, shape) == best:
            if left == 0:
                for j in range(len(shape.types)):
                    row = np.uint64(j * (JOBS + (2 << 2 * len(shape.heads))) + 1)
                    z[m + row * np.uint64(STRIDE)] = _amount(z, m, c, j, shape)
                return
            left -= 1


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _next_slot(z, words, random_words, random_bytes, servers, number, tile, maxweight, shape):
    """Draw what the next slot needs, a word per type and a byte per server, and schedule on the present backlogs."""
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    for i in range(np.uint64(len(shape.types) + ((servers + 7) // 8 if maxweight else 0))):
        random_words[i], s0, s1, s2, s3 = step(s0, s1, s2, s3)
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    if not maxweight:
        return
    position, done = 0, 0
    while done < servers:
        n = min(STRIDE, servers - done)
        first = 8 * len(shape.types) + done  # its random byte
        unsettled = _16_BITS
        if len(shape.configs) <= UNROLLED:
            lanes = -(-n // VECTOR) * VECTOR
            unsettled = _schedule(z, random_bytes, np.uint64(position), np.uint64(first), lanes, shape)
        if unsettled != 0:
            for chunk in range(0, n, 16):  # in the order of the servers
                left = unsettled
                while left != 0:
                    m = chunk + np.int64(_lowest(left))
                    left &= left - 1
                    if m < n:
                        _decide(z, words, random_bytes[first + m], np.uint64(position + m), number, shape)
        position += tile
        done += STRIDE


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _position(row, m, tile):
    """Where server m stands in the row at position `row` of the first tile."""
    m = np.uint64(m)
    return np.uint64(row) + m // np.uint64(STRIDE) * np.uint64(tile) + m % np.uint64(STRIDE)


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _having(z, position, best):
    """The servers of a tile whose backlog is `best`, as the bits of two words; the second looks into the next row."""
    return _equal(z, np.uint64(position), best), _equal(z, np.uint64(position + 64), best) & _HIGH


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _shortest(z, row, tile, servers, best, words):
    """A server of the least backlog `best`, ties uniform; `row` is the position of the backlogs in the first tile."""
    ties = 0
    low = high = np.uint64(0)
    for position in range(row, row + (servers + STRIDE - 1) // STRIDE * tile, tile):
        low, high = _having(z, position, best)
        ties += ones(low) + ones(high)
    left = below(ties, words) if ties > 1 else 0
    first, position = 0, row
    while servers > STRIDE:  # to the tile that has the place
        low, high = _having(z, position, best)
        here = ones(low) + ones(high)
        if left < here:
            break
        left -= here
        position += tile
        first += STRIDE
    if left >= ones(low):
        left -= ones(low)
        low = high
        first += 64
    for _ in range(left):
        low &= low - _U1
    return first + np.int64(_lowest(low))


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _route(z, words, order, servers, routing, draws, row, tile, least):
    """The server for the arrivals of a type whose backlogs are at `row`."""
    if routing == JSQ:
        return _shortest(z, row, tile, servers, least, words)
    if routing == RANDOM:
        return below(servers, words)
    best = fewest = np.int64(-1)
    for i in range(draws):  # first come, first kept: uniform, as the order of the draws is
        if routing == WITH_REPLACEMENT:
            m = below(servers, words)
        else:
            k = np.uint64(i + below(servers - i, words))
            m = order[k]
            order[k] = order[i]
            order[i] = m
        q = np.int64(z[_position(row, m, tile)])
        if best < 0 or q < fewest:
            best, fewest = m, q
    return best


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _join(z, numbers, ends, ring, queue, reach, position, size):
    """A job comes to a queue (type and server) whose oldest job is at `position` of the lanes."""
    tail = ends[queue, TAIL]
    ring[queue, np.uint64(tail & (ring.shape[1] - 1))] = numbers[SLOT] << 32 | size
    ends[queue, TAIL] = tail + 1
    k = tail - ends[queue, HEAD]
    numbers[LONGEST] = max(numbers[LONGEST], k + 1)
    if reach == 1:
        z[position] = np.int32(z[position] + size) if k > 0 else np.int32(0)
    elif k < reach:
        z[position + np.uint64(k) * np.uint64(STRIDE)] = size


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _leave(z, numbers, counts, ends, ring, queue, reach, position):
    """Remove the finished jobs of a queue, whose oldest job is at `position` of the lanes; returns how many."""
    head, tail, mask = ends[queue, HEAD], ends[queue, TAIL], ring.shape[1] - 1
    if reach == 1:
        job, following = ring[queue, np.uint64(head & mask)], ring[queue, np.uint64((head + 1) & mask)]
        counts[RESPONSE_SUM] += numbers[SLOT] + 1 - (job >> 32)
        counts[COMPLETED] += 1
        ends[queue, HEAD] = head + 1
        behind = z[position - np.uint64(JOBS * STRIDE)] - (following & 0x7FFFFFFF)
        z[position] = np.int32(behind if tail - head > 1 else NO_JOB)
        return 1
    present = min(reach, tail - head)
    kept = present
    for back in range(present):  # youngest first: those that stay move towards the tail
        k = present - 1 - back
        job = ring[queue, np.uint64((head + k) & mask)]
        remaining = z[position + np.uint64(k) * np.uint64(STRIDE)]
        if remaining == 0:
            counts[RESPONSE_SUM] += numbers[SLOT] + 1 - (job >> 32)
        else:
            kept -= 1
            ring[queue, np.uint64((head + kept) & mask)] = job
            z[position + np.uint64(kept) * np.uint64(STRIDE)] = remaining
    ended = kept  # so many places are free at the head
    counts[COMPLETED] += ended
    head += ended
    ends[queue, HEAD] = head
    for k in range(reach):
        row = position + np.uint64(k) * np.uint64(STRIDE)
        if k + ended < present:
            z[row] = z[row + np.uint64(ended) * np.uint64(STRIDE)]
        else:
            size = ring[queue, np.uint64((head + k) & mask)] & 0x7FFFFFFF
            z[row] = np.int32(size if head + k < tail else NO_JOB)
    return ended


@njit(cache=True)
def _fill(z, ends, need, have, m, servers, position, types, group):
    """Best-Fit at server m, whose lane is at `position`: start waiting jobs until none fits."""
    resources = need.shape[1]
    while True:
        bottleneck = 0.0
        best, share = -1, -1.0
        for stage in range(2):  # the bottleneck, then the job
            for j in range(types if stage == 1 else 1):
                queue = j * servers + m
                fits = ends[queue, TAIL] - ends[queue, HEAD] > z[position + j * group + STRIDE]
                own = -1.0
                for i in range(resources):
                    used = np.int64(0)
                    for k in range(types):
                        used += z[position + k * group + STRIDE] * need[k, i]
                    fits = fits and used + need[j, i] <= have[m, i]
                    fraction = used / have[m, i] if have[m, i] > 0 else 0.0
                    if stage == 0:
                        bottleneck = max(bottleneck, fraction)
                    elif fraction == bottleneck:
                        own = max(own, need[j, i] / have[m, i] if have[m, i] > 0 else 0.0)
                if stage == 1 and fits and own > share:
                    best, share = j, own
        if best < 0:
            return
        z[position + best * group + STRIDE] += 1


@njit(cache=True, boundscheck=False, error_model="numpy")
def _squares(z, row, n):
    """The sum of squares of a row."""
    total = 0
    for m in range(np.uint64(n)):
        total += np.int64(z[row + m]) * np.int64(z[row + m])
    return total


# _nrt=False: no reference counting of the arrays, which would cost two atomic operations per array and call.
# forceinline above: a call would pass each array as seven words.
@njit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def advance(state, fixed, slots, totals, samples, interval):
    """Go on for `slots` slots, adding to totals; stops early when a ring may be too short for `most` jobs more.

    Returns the slots done, or -1 - j when the backlog of type j at a server leaves the range of the weights.
    """
    words, numbers, z, backlog, least, random_words, random_bytes, order, ends, ring, counts, ended_at = state
    servers, number, tile, shape, job_level = fixed.servers, fixed.number, fixed.tile, fixed.shape, fixed.job_level
    reach, direction, scheduling, need, have = fixed.reach, fixed.direction, fixed.scheduling, fixed.need, fixed.have
    a, b = fixed.arrivals, fixed.sizes
    count, group = len(shape.types), (JOBS + (2 << 2 * len(shape.heads))) * STRIDE
    for j in range(count):
        totals[ARRIVALS + 1 + 2 * count + j] += backlog[j]  # served = backlog before + arrived - backlog after
    weighted_sum = parallel_sum = perpendicular_sum = 0.0
    norm_slots = 0
    taken = 0
    counts[:] = 0
    maxweight = scheduling == MAXWEIGHT and len(shape.configs) > 1
    if numbers[SCHEDULED] == 0:
        numbers[SCHEDULED] = 1
        _next_slot(z, words, random_words, random_bytes, servers, number, tile, maxweight, shape)
    done = 0
    while done < slots and numbers[LONGEST] + fixed.most <= ring.shape[1]:
        slot = numbers[SLOT]
        for j in range(count):
            jobs = invert(a.cdf, a.values, a.guide, a.start, j, random_words[j])
            if jobs > 0:
                m = _route(z, words, order, servers, fixed.routing, fixed.draws, j * group, tile, least[j])
                position = _position(j * group, m, tile)
                place, queue = position + np.uint64(JOBS * STRIDE), np.uint64(j * servers + m)
                work = 0
                for _ in range(jobs):
                    size = draw(b.cdf, b.values, b.guide, b.start, fixed.size_table[j], words)
                    work += size
                    if job_level:
                        _join(z, numbers, ends, ring, queue, reach[j], place, size)
                if z[position] + work > fixed.largest:
                    return -1 - j
                z[position] += work
                backlog[j] += work
                counts[ARRIVED] += jobs
                counts[PER_TYPE + count + j] += work
                if scheduling == BEST_FIT:
                    _fill(z, ends, need, have, m, servers, np.int64(position) - j * group, count, group)
        finished = 0
        first, position = 0, 0
        while first < servers:
            n = min(STRIDE, servers - first)
            for j in range(count):
                row = np.uint64(position + j * group)
                served, shortest, ended = _serve(z, row, np.uint64(-(-n // VECTOR)), reach[j] if job_level else 0)
                backlog[j] -= served
                least[j] = min(least[j], shortest) if first > 0 else shortest
                if not ended:
                    continue
                low, high = _ends(z, row, reach[j]), _ends(z, row + np.uint64(64), reach[j]) & _HIGH
                while (low | high) != 0:
                    lane = _lowest(low) if low != 0 else np.uint64(64) + _lowest(high)
                    high &= high - np.uint64(low == 0)
                    low &= low - np.uint64(low != 0)
                    queue = np.uint64(j * servers + first) + lane
                    place = row + lane + np.uint64(JOBS * STRIDE)
                    gone = _leave(z, numbers, counts, ends, ring, queue, reach[j], place)
                    if scheduling == BEST_FIT:
                        z[row + lane + np.uint64(STRIDE)] -= gone
                        ended_at[finished] = first + np.int64(lane)
                        finished += 1
            position += tile
            first += STRIDE
        _next_slot(z, words, random_words, random_bytes, servers, number, tile, maxweight, shape)
        for i in range(finished):
            m = ended_at[i]
            _fill(z, ends, need, have, m, servers, np.int64(_position(0, m, tile)), count, group)
        weighted = 0.0
        for j in range(count):
            counts[PER_TYPE + j] += backlog[j]
            weighted += direction[j] * backlog[j]
        weighted_sum += weighted
        parallel_sum += weighted * weighted
        if slot % fixed.norm_interval == 0:
            squares = 0
            for j in range(count):
                first, position = 0, j * group
                while first < servers:
                    squares += _squares(z, np.uint64(position), min(STRIDE, servers - first))
                    position += tile
                    first += STRIDE
            norm_slots += 1
            perpendicular_sum += squares - weighted * weighted / servers
        if interval > 0 and slot % interval == 0 and taken < samples.size:
            samples[taken] = weighted / math.sqrt(servers)
            taken += 1
        numbers[SLOT] = slot + 1
        done += 1
    totals[SLOTS] += done
    totals[WEIGHTED] += weighted_sum / math.sqrt(servers)
    totals[PARALLEL] += parallel_sum / servers
    totals[NORM_SLOTS] += norm_slots
    totals[PERPENDICULAR] += perpendicular_sum
    totals[RESPONSE] += counts[RESPONSE_SUM]
    totals[COMPLETIONS] += counts[COMPLETED]
    totals[ARRIVALS] += counts[ARRIVED]
    for j in range(count):
        totals[ARRIVALS + 1 + j] += counts[PER_TYPE + j]
        totals[ARRIVALS + 1 + count + j] += counts[PER_TYPE + count + j]
        totals[ARRIVALS + 1 + 2 * count + j] += counts[PER_TYPE + count + j] - backlog[j]
    return done
