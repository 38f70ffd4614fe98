"""The cluster model in plain Python, slot by slot; `elastiqueue.models.cluster.parameters` says what it is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.cluster.parameters import ClusterParameters, columns
from elastiqueue.sampling.discrete import below, draw, invert, tables
from elastiqueue.sampling.rng import next_word


class Reference:
    """The model slot by slot on lists of jobs: slow and readable; draws the same words as the compiled simulator."""

    def __init__(self, parameters: ClusterParameters, words: NDArray[np.uint64]) -> None:
        self.p = parameters
        self.words = words.copy()
        m, j = parameters.servers, parameters.types
        self.jobs: list[list[list[list[int]]]] = [[[] for _ in range(m)] for _ in range(j)]  # [remaining, arrival slot]
        self.work = [[0] * m for _ in range(j)]  # workload level: all there is
        self.order = list(range(m))  # a permutation, shuffled by the draws without replacement
        self.slot = 0
        self.arrival_tables, self.size_tables = tables(parameters.arrivals), tables(parameters.sizes)
        self.have, self.need = parameters.integer_resources()
        self.totals = dict.fromkeys(columns(parameters), 0.0)
        self.schedule = [[0] * m for _ in range(j)]
        self._next_slot()

    def backlog(self, j: int, m: int) -> int:
        return self.work[j][m] if self.p.level == "workload" else sum(job[0] for job in self.jobs[j][m])

    def _next_slot(self) -> None:
        """Draw a word per type, for its arrivals, and a byte per server, for ties; schedule."""
        servers, types = self.p.servers, range(self.p.types)
        self.arrival_words = [np.uint64(next_word(self.words)) for _ in types]
        if self.p.scheduling == "best_fit":
            return
        random = [0] * servers
        if max(len(own) for own in self.p.configurations) > 1:
            drawn = [int(next_word(self.words)) for _ in range(-(-servers // 8))]
            random = [drawn[m // 8] >> 8 * (m % 8) & 255 for m in range(servers)]
        for m, k in enumerate(self.p.classes):
            own = self.p.configurations[k]
            weights = [sum(s[j] * self.backlog(j, m) for j in types) for s in own]
            best = [s for s, w in zip(own, weights, strict=True) if w == max(weights)]
            ties, index = len(best), 0
            share = random[m] * ties
            if (ties == 3 and random[m] == 255) or (ties > 3 and share & 255 < 256 % ties):
                index = below(ties, self.words)  # what cannot be shared equally is excluded
            elif ties > 3:
                index = share >> 8
            elif ties > 1:  # 255 bytes in three parts: below 85, the even ones, the odd ones
                index = 2 if ties == 3 and random[m] < 85 else random[m] % 2
            for j in types:
                self.schedule[j][m] = best[index][j]

    def _route(self, j: int) -> int:
        p, servers = self.p, self.p.servers
        if p.routing == "random":
            return int(below(servers, self.words))
        if p.routing == "power_of_two_with_replacement":
            drawn = [int(below(servers, self.words)) for _ in range(2)]
            return min(drawn, key=lambda m: self.backlog(j, m))
        if p.routing == "jsq":
            queue = [self.backlog(j, m) for m in range(servers)]
            least = [m for m in range(servers) if queue[m] == min(queue)]
            return least[0] if len(least) == 1 else least[below(len(least), self.words)]
        for i in range(p.draws):
            k = i + int(below(servers - i, self.words))
            self.order[i], self.order[k] = self.order[k], self.order[i]
        return min(self.order[: p.draws], key=lambda m: self.backlog(j, m))

    def _fill(self, m: int) -> None:
        """Best-Fit: start jobs at server m until none fits."""
        types, have = range(self.p.types), self.have[self.p.classes[m]]
        while True:
            used = [sum(self.schedule[j][m] * self.need[j][i] for j in types) for i in range(len(have))]
            fraction = [u / h if h else 0.0 for u, h in zip(used, have, strict=True)]
            best, share = -1, -1.0
            for j in types:
                fits = all(u + n <= h for u, n, h in zip(used, self.need[j], have, strict=True))
                if not fits or len(self.jobs[j][m]) == self.schedule[j][m]:
                    continue
                own = max(
                    n / h if h else 0.0
                    for n, h, f in zip(self.need[j], have, fraction, strict=True)
                    if f == max(fraction)
                )
                if own > share:
                    best, share = j, own
            if best < 0:
                return
            self.schedule[best][m] += 1

    def advance(self, slots: int) -> dict[str, float]:
        """Go on for so many slots; returns the totals since the beginning."""
        p, totals, types, servers = self.p, self.totals, range(self.p.types), range(self.p.servers)
        for _ in range(slots):
            for j in types:
                number = int(invert(*self.arrival_tables, j, self.arrival_words[j]))
                if number == 0:
                    continue
                m = self._route(j)
                for _ in range(number):
                    size = int(draw(*self.size_tables, j, self.words))
                    self.jobs[j][m].append([size, self.slot])
                    self.work[j][m] += size
                    totals[f"arrived_{j + 1}"] += size
                totals["arrivals"] += number
                if p.scheduling == "best_fit":
                    self._fill(m)
            ended = set()
            for j in types:
                for m in servers:
                    jobs, share = self.jobs[j][m], self.schedule[j][m]
                    if p.level == "workload":
                        jobs.clear()
                        served = min(share, self.work[j][m])
                    else:
                        served = min(share, len(jobs))
                    for job in jobs[:share]:
                        job[0] -= 1
                        if job[0] == 0:
                            totals["response"] += self.slot + 1 - job[1]
                            totals["completions"] += 1
                            ended.add(m)
                            if p.scheduling == "best_fit":
                                self.schedule[j][m] -= 1
                    self.jobs[j][m] = [job for job in jobs if job[0] > 0]
                    self.work[j][m] -= served
                    totals[f"served_{j + 1}"] += served
            self._next_slot()
            if p.scheduling == "best_fit":
                for m in ended:
                    self._fill(m)
            q = [[self.backlog(j, m) for m in servers] for j in types]
            weighted = 0.0
            for j in types:
                totals[f"backlog_{j + 1}"] += sum(q[j])
                weighted += p.c[j] * sum(q[j])
            totals["slots"] += 1
            totals["weighted"] += weighted / math.sqrt(p.servers)
            totals["parallel_sq"] += weighted * weighted / p.servers
            if self.slot % p.norm_interval == 0:
                totals["norm_slots"] += 1
                totals["perpendicular_sq"] += sum(x * x for row in q for x in row) - weighted * weighted / p.servers
            self.slot += 1
        return totals
