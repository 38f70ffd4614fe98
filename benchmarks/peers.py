"""Speed beside peers: CPU time per event of TABS by number of servers, and whether all agree; `benchmarks/results/`.

    python benchmarks/peers.py [--cxx g++] [--out benchmarks/results]

Peers: programs in C++ written for this (`peers.cpp`: servers as objects with a heap of events, in lists, counts of
servers event by event, and uniformised), SimPy (a process per server), rebop (Gillespie's method in Rust on the
reaction network; GillesPy2 would be the same method, slower). All simulate lambda = 0.3, mu = nu = 0.1, B = 20 from
lambda N busy servers, the rest off, for 250 mean services; an event is one of the system: arrival, departure, standby,
end of a setup. delayed_off (setups that are aborted) has its own two C++ peers. SimFaaS, which has no queues, a node of
Ciw without a waiting room, and TABS without a buffer and with every server on (`jiq`, B = 1) all are an Erlang loss
system. A row per method: its mean idle-on fraction must be that of the others within 5 standard errors of the
difference.

SimPy, rebop, SimFaaS and Ciw are the dependency group `bench`; a peer that is not installed is left out, with a line.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import platform
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from speed import cpu, draws

from elastiqueue.engines.simulation import simulate
from elastiqueue.models.registry import model_of
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.theory.queues import erlang_b

LAMBDA, MU, NU, BUFFER, HORIZON = 0.3, 0.1, 0.1, 20, 250.0
SERVERS = (100, 1_000, 10_000, 100_000)
EVENTS = 4_000_000  # of all replications of a compiled method
Result = tuple[float, float, list[float]]  # CPU seconds, events, mean idle-on fraction of each replication


def replications(servers: int, events: float = EVENTS) -> int:
    return max(4, math.ceil(events / (150.0 * servers)))


def ours(servers: int, **keys: object) -> Result:
    """All included: seeds, batches, totals."""
    setting = {"model": "tabs", "arrival_rate": LAMBDA, "standby_rate": MU, "setup_rate": NU, "buffer": BUFFER}
    scenario = scenario_from({**setting, "servers": servers, "horizon": HORIZON, **keys})
    model = model_of(scenario)
    simulate(scenario, 0, 1)  # compiles
    start = time.process_time()
    totals, _ = simulate(scenario, 0, replications(servers))
    seconds = time.process_time() - start
    column = dict(zip(model.columns(scenario), totals.T, strict=True))
    events = sum(model.events(dict(zip(column, row, strict=True))) for row in totals)
    return seconds, events, (column["idle_on"] / HORIZON / servers).tolist()


def compiled(program: Path, method: str) -> Callable[[int], Result]:
    def run(servers: int) -> Result:
        command = [str(program), method, str(servers), str(replications(servers)), str(HORIZON)]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        rows = np.array([line.split() for line in lines], float)
        return rows[:, 0].sum(), rows[:, 1].sum(), (rows[:, 5] / HORIZON / servers).tolist()

    return run


def with_simpy(servers: int) -> Result:
    """A process per server; standby is a timeout that an arrival interrupts."""
    import simpy

    def system(rng: random.Random) -> tuple[int, float]:
        env = simpy.Environment()
        busy, idle, off = [], [], list(range(servers))
        tasks, waking = [0] * servers, {}
        events, area, last = 0, 0.0, 0.0

        def happened() -> None:
            nonlocal events, area, last
            events, area, last = events + 1, area + len(idle) * (env.now - last), env.now

        def server(s: int):
            while True:
                while tasks[s] > 0:
                    yield env.timeout(rng.expovariate(1.0))
                    happened()
                    tasks[s] -= 1
                busy.remove(s)
                idle.append(s)
                waking[s] = env.event()
                standby = env.timeout(rng.expovariate(MU))
                yield standby | waking[s]
                if not waking[s].triggered:
                    happened()
                    idle.remove(s)
                    off.append(s)
                    return

        def set_up(s: int):
            yield env.timeout(rng.expovariate(NU))
            happened()
            busy.append(s)  # for a moment: the process takes it to the idle-on ones
            env.process(server(s))

        def arrivals():
            while True:
                yield env.timeout(rng.expovariate(LAMBDA * servers))
                happened()
                if idle:
                    s = idle.pop(rng.randrange(len(idle)))
                    busy.append(s)
                    tasks[s] = 1
                    waking[s].succeed()
                    continue
                if busy:
                    s = rng.choice(busy)
                    tasks[s] = min(tasks[s] + 1, BUFFER)
                if off:
                    env.process(set_up(off.pop()))

        for _ in range(round(LAMBDA * servers)):
            s = off.pop()
            busy.append(s)
            tasks[s] = 1
            env.process(server(s))
        env.process(arrivals())
        env.run(HORIZON)
        return events, (area + len(idle) * (HORIZON - last)) / HORIZON / servers

    start = time.process_time()
    runs = [system(random.Random(seed)) for seed in range(replications(servers, 150_000))]
    return time.process_time() - start, sum(run[0] for run in runs), [run[1] for run in runs]


def with_rebop(servers: int) -> Result:
    """Species: servers by number of tasks (cut at 5), U, D0, D1; a species that counts the events."""
    import rebop

    levels = [f"X{i}" for i in range(1, 6)]
    busy = "(" + " + ".join(levels) + " + 1e-9)"
    some = "(U / (U + 1e-9))"  # 1 where a server is idle-on, 0 where none is
    off = "(D0 / (D0 + 1e-9))"
    system = rebop.Gillespie()
    system.add_reaction(f"{LAMBDA * servers} * {some}", ["U"], ["X1", "E"])
    for i, level in enumerate(levels):
        for factor, before, after in ((off, ["D0"], ["D1"]), (f"(1 - {off})", [], [])):
            met = f"{LAMBDA * servers} * (1 - {some}) * {factor} * {level} / {busy}"
            system.add_reaction(met, [level, *before], [levels[min(i + 1, 4)], *after, "E"])
        system.add_reaction(1.0, [level], [levels[i - 1] if i else "U", "E"])
    system.add_reaction(MU, ["U"], ["D0", "E"])
    system.add_reaction(NU, ["D1"], ["U", "E"])
    first = {"X1": round(LAMBDA * servers), "D0": servers - round(LAMBDA * servers)}
    seconds, events, means = 0.0, 0.0, []
    for seed in range(replications(servers, 500_000)):
        start = time.process_time()
        path = system.run(first, tmax=HORIZON, nb_steps=2000, rng=seed, var_names=["U", "E"])
        seconds += time.process_time() - start
        events += float(path["E"][-1])
        idle = path["U"].to_numpy() / servers
        means.append(float((idle[1:] + idle[:-1]).mean() / 2))
    return seconds, events, means


def loss_systems(servers: int = 50) -> list[str]:
    """Requests lost where no server is free: SimFaaS, Ciw, and ours; all against Erlang's formula."""
    load, horizon = 0.9, 2000.0
    exact = erlang_b(servers, load * servers)

    def with_simfaas() -> tuple[int, int]:
        from simfaas.ServerlessSimulator import ServerlessSimulator

        peer = ServerlessSimulator(
            arrival_rate=load * servers, warm_service_rate=1.0, cold_service_rate=1.0, expiration_threshold=1e9,
            maximum_concurrency=servers, max_time=horizon,
        )  # fmt: skip
        np.random.seed(1)  # noqa: NPY002 - the generator that SimFaaS draws from
        peer.generate_trace(debug_print=False, progress=False)
        return peer.total_reject_count, peer.total_req_count

    def with_ciw() -> tuple[int, int]:
        import ciw

        arrivals, service = ciw.dists.Exponential(load * servers), ciw.dists.Exponential(1.0)
        network = ciw.create_network(
            arrival_distributions=[arrivals], service_distributions=[service], number_of_servers=[servers],
            queue_capacities=[0],
        )  # fmt: skip
        ciw.seed(1)
        peer = ciw.Simulation(network)
        peer.simulate_until_max_time(horizon)
        kinds = [record.record_type for record in peer.get_all_records()]
        return kinds.count("rejection"), len(kinds)

    scenario = scenario_from(
        {"model": "jiq", "servers": servers, "arrival_rate": load, "buffer": 1, "horizon": horizon}
    )
    simulate(scenario, 0, 1)
    start = time.process_time()
    totals, _ = simulate(scenario, 0, 20)
    column = dict(zip(model_of(scenario).columns(scenario), totals.T, strict=True))
    here = (time.process_time() - start) / column["arrivals"].sum()
    loss = column["lost_full"] / column["arrivals"]
    mean, error = float(loss.mean()), float(loss.std(ddof=1))
    assert abs(mean - exact) <= 5 * error / math.sqrt(20), (mean, exact)
    found = [f"elastiqueue {1e9 * here:.1f} ns per request ({mean:.4f} lost)"]
    for name, run in (("SimFaaS", with_simfaas), ("Ciw", with_ciw)):
        if importlib.util.find_spec(name.lower()) is None:
            continue
        start = time.process_time()
        lost, requests = run()
        theirs = (time.process_time() - start) / requests
        share = lost / requests
        assert abs(share - exact) <= 5 * error, (name, share, exact, error)  # one run: the deviation of a run
        found.append(f"{name} {1e6 * theirs:.1f} us ({share:.4f} lost), {theirs / here:.0f} times as long")
    head = f"Serverless without queues ({servers} instances, {load:g} of their rate; Erlang B: {exact:.4f} lost): "
    return [head + ", ".join(found) + "."]


def machine() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cxx", default="g++", help="C++ compiler")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    limit = min(cpu(draws) for _ in range(3))
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peers"
        source = Path(__file__).with_name("peers.cpp")
        subprocess.run([options.cxx, "-O3", "-march=native", "-std=c++17", "-o", program, source], check=True)
        methods: dict[str, tuple[str, Callable[[int], Result], int]] = {
            "elastiqueue": ("TABS", ours, 10**6),
            "C++, counts, blocks": ("TABS", compiled(program, "blocks"), 10**6),
            "C++, counts, direct": ("TABS", compiled(program, "direct"), 10**6),
            "C++, servers in lists": ("TABS", compiled(program, "lists"), 10**6),
            "C++, servers, event heap": ("TABS", compiled(program, "heap"), 10**6),
            "rebop": ("TABS", with_rebop, 1_000),
            "SimPy": ("TABS", with_simpy, 1_000),
            "elastiqueue, delayed-off": (
                "delayed-off", lambda n: ours(n, model="delayed_off", buffer=None, abort_setups=True), 10**6
            ),
            "C++, delayed-off, blocks": ("delayed-off", compiled(program, "queue_blocks"), 10**6),
            "C++, delayed-off, direct": ("delayed-off", compiled(program, "queue_direct"), 10**6),
        }  # fmt: skip
        for servers in SERVERS:
            for name, (system, run, largest) in methods.items():
                module = name.lower() if name in ("rebop", "SimPy") else None
                if servers > largest or (module and importlib.util.find_spec(module) is None):
                    continue
                seconds, events, idle = run(servers)
                row = {"system": system, "method": name, "servers": servers, "ns_per_event": 1e9 * seconds / events}
                row |= {"events": events, "n": len(idle), "idle_on": np.mean(idle)}
                rows.append(row | {"se": np.std(idle, ddof=1) / math.sqrt(len(idle))})
                print(f"{name:<28}{servers:>8}{row['ns_per_event']:>12.2f} ns per event", flush=True)
    data = pd.DataFrame(rows)
    for (system, servers), group in data.groupby(["system", "servers"]):
        first = group.iloc[0]
        for _, other in group.iloc[1:].iterrows():
            distance = abs(other["idle_on"] - first["idle_on"]) / math.hypot(other["se"], first["se"])
            assert distance <= 5, f"{system}, N = {servers}, {other['method']}: {distance:.1f} standard errors apart"
    notes += loss_systems()
    write(data, limit, notes, options.out)


def _short(value: float, digits: int = 3) -> str:
    return f"{value:.0f}" if value >= 10 ** (digits - 1) else f"{value:#.{digits}g}"


def write(data: pd.DataFrame, limit: float, notes: list[str], out: Path) -> None:
    """Data, table and figure."""
    out.mkdir(parents=True, exist_ok=True)
    data.to_csv(out / "peers.csv", index=False, float_format="%.6g")
    table = data.pivot(index="method", columns="servers", values="ns_per_event").loc[data["method"].unique()]
    head = ["ns per event (ratio to elastiqueue)", *(f"N = {n:,}" for n in table.columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, values in table.iterrows():
        base = table.loc["elastiqueue, delayed-off" if "delayed-off" in str(name) else "elastiqueue"]
        cells = [
            "" if math.isnan(v) else _short(v) if v == b else f"{_short(v)} ({_short(v / b, 2)})"
            for v, b in zip(values, base, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = [
        f"# Speed beside peers, on {machine()}", "",
        f"CPU time per event, all included; one random number takes {1e9 * limit:.2f} ns. The mean idle-on",
        "fractions of all methods agree within 5 standard errors (`peers.csv`). Written by `make bench`.",
        "", *lines, "", *notes,
    ]  # fmt: skip
    (out / "peers.md").write_text("\n".join(text).rstrip() + "\n")
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for name, values in table.iterrows():
        style = {"marker": "o", "lw": 2} if "elastiqueue" in str(name) else {"marker": ".", "lw": 1}
        axes.loglog(table.columns, values, label=name, ls="--" if "delayed-off" in str(name) else "-", **style)
    axes.axhline(1e9 * limit, color="0.5", lw=1, ls=":", label="one random number")
    axes.set_xlabel("number of servers $N$")
    axes.set_ylabel("CPU ns per event")
    figure.legend(loc="outside right upper", fontsize=7)
    figure.savefig(out / "peers.png", dpi=150)


if __name__ == "__main__":
    main()
