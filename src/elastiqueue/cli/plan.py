"""Find the cheapest value of a key within a limit: the standby period, the servers, any number of the scenario.

Examples:
  elastiqueue plan tabs.yaml --max-wait 0.05
  elastiqueue plan tabs.yaml --max-wait 0.1 --metric wait_probability --between 0.1 1000
  elastiqueue plan tabs.yaml --max-wait 2 --metric wait_p99
  elastiqueue plan tabs.yaml --max-wait 0.05 --vary servers --objective cost_per_hour
  elastiqueue plan small.yaml --max-wait 0.5 --exact --figure plan.png

The answer keeps the limit with 95 % certainty, and no other value saves more than --within of the power. The table
shows what was tried, the figure the trade-off. Times are in mean service times, or 50 ms where the scenario has units.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.cli import options as shared
from elastiqueue.errors import ConfigError
from elastiqueue.scenarios.units import in_practice

if TYPE_CHECKING:
    from elastiqueue.api.plan import Plan


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.arguments(parser)
    parser.add_argument("--max-wait", required=True, metavar="W", help="limit of the metric")
    parser.add_argument("--metric", default="mean_wait", metavar="NAME", help="what is limited; default: mean_wait")
    parser.add_argument("--max-loss", metavar="P", help="limit of loss_probability besides")
    parser.add_argument("--vary", default="standby_time", metavar="KEY", help="what is chosen; default: standby_time")
    parser.add_argument("--between", nargs=2, metavar=("LOW", "HIGH"), help="default: value / 100 to value * 100")
    parser.add_argument("--objective", default="power", metavar="NAME", help="power (default) or cost_per_hour")
    parser.add_argument("--within", type=float, default=0.01, metavar="X", help="share of it that may be missed; .01")
    parser.add_argument("--exact", action="store_true", help="by the exact solver, for small systems")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; default: all cores")
    parser.add_argument("--figure", metavar="FILE", help="PDF, PNG or SVG; default: SCENARIO_plan.pdf in this folder")


def run(options: argparse.Namespace) -> int:
    """Search; print the answer and the table, write the figure; status 1 where no value keeps the limit."""
    scenario = shared.read(options)
    figure = options.figure or f"{Path(options.scenario).stem}_plan.pdf"
    if Path(figure).suffix not in (".pdf", ".png", ".svg"):
        raise ConfigError(f"--figure = {figure}: must end in .pdf, .png or .svg")
    shared.check_file("--figure", figure)
    if options.jobs is not None and options.jobs < 1:
        raise ConfigError(f"--jobs = {options.jobs}: must be >= 1")
    limits = {options.metric: _number(scenario, "--max-wait", options.max_wait)}
    if options.max_loss is not None:
        limits["loss_probability"] = _number(scenario, "--max-loss", options.max_loss)
    between = None
    if options.between is not None:
        low, high = (_number(scenario, "--between", text) for text in options.between)
        between = low, high
    from elastiqueue.api.plan import plan

    with shared.Progress("tasks of this round:") as progress:
        found = plan(
            scenario, limits, options.vary, options.objective, between, options.within, solve_exactly=options.exact,
            jobs=options.jobs, progress=progress,
        )  # fmt: skip
    _draw(found, figure)
    shared.report(options, found, f"{shared.title(scenario)}\n{_text(found, scenario)}\nfigure: {figure}")
    return 0 if found.best else 1


def _number(scenario: Any, option: str, text: str) -> float:
    """A number, or a time in the scenario's units; raises ConfigError."""
    try:
        return float(text)
    except ValueError:
        from elastiqueue.scenarios.units import seconds

        units = getattr(scenario, "units", None)
        if units is None or not hasattr(units, "service_time"):
            raise ConfigError(f"{option} = {text}: must be a number (the scenario has no units)") from None
        try:
            return float(seconds(text)) / float(units.service_time)
        except ValueError:
            raise ConfigError(f"{option} = {text}: must be a number, or a time such as 50 ms") from None


def _text(found: Plan, scenario: Any) -> str:
    """The trade-off, and the answer with its certainty."""
    units = getattr(scenario, "units", None)
    money = units.currency if units else ""
    unit = {"power": "W", "cost_per_hour": f"{money} / h"}[found.objective]
    rows = [[found.key, *found.limits, f"{found.objective} [{unit}]", "n", "limit", ""]]
    words = {True: "kept", False: "broken", None: "undecided"}
    for point in found.points:
        cells = [f"{point.value:.4g}", *map(str, point.limits.values()), str(point.objective)]
        mark = "<- answer" if point is found.best else ""
        rows.append([*cells, str(point.objective.n or "exact"), words[point.keeps], mark])
    asked = " and ".join(f"{name} <= {limit:.4g}{_real(scenario, name, limit)}" for name, limit in found.limits.items())
    if found.best is None:
        undecided = any(point.keeps is None for point in found.points)
        why = "none of them keeps it for certain; some are undecided" if undecided else "all of them break it"
        return f"{shared.aligned(rows)}\nno answer: {asked} is out of reach here, {why}"

    def shown(value: float) -> str:
        if units is None or not found.key.endswith("_time"):
            return f"{value:.4g}"
        return f"{value:.4g} ({value * units.service_time:.4g} s)"

    certain = "exactly" if found.best.objective.n == 0 else "with 95 % certainty"
    lines = [
        shared.aligned(rows),
        f"answer: {found.key} = {shown(found.best.value)} takes {found.best.objective} {unit} with {asked}",
        f"{certain}: the limit is kept; the best value lies between {shown(found.low)} and {shown(found.high)} "
        f"and saves at most {100 * found.saving:.2g} % more",
    ]
    if not found.settled:
        lines.append("this is less than was asked for (--within): the search ran out of replications or points")
    if found.best.value in (found.points[0].value, found.points[-1].value):
        lines.append("the answer is at an end of the range: a wider one (--between) may save more")
    return "\n".join(lines)


def _real(scenario: Any, metric: str, value: float) -> str:
    """The value of a metric in the scenario's units, in brackets; empty where it has none."""
    known = in_practice(scenario, metric)
    return f" ({known[0] * value:.4g} {known[1]})" if known else ""


def _draw(found: Plan, path: str) -> None:
    """Limited metrics and objective over the key, with 95 % intervals; what keeps the limit is filled."""
    import io

    from elastiqueue.figures import style
    from elastiqueue.results.files import write_atomically

    names = [*found.limits, found.objective]
    rows = found.rows()
    x = [row[found.key] for row in rows]
    with style.applied():
        figure, panels = style.plt.subplots(
            len(names), sharex=True, squeeze=False, figsize=(style.TEXT_WIDTH / 2, 1.7 * len(names))
        )
        for name, axes in zip(names, panels[:, 0], strict=True):
            mean = [row[name] for row in rows]
            half = [row[f"{name}_ci_high"] - row[name] for row in rows]
            axes.errorbar(x, mean, half, color=style.COLOURS[0], marker="o", markerfacecolor="white", capsize=1.5)
            kept = [row for row in rows if row["keeps"] is True]
            axes.plot(
                [row[found.key] for row in kept], [row[name] for row in kept], "o", color=style.COLOURS[0], zorder=4
            )
            if name in found.limits:
                axes.axhline(found.limits[name], label="limit", **style.LIMIT)
                axes.legend()
            if found.best is not None:
                axes.axvspan(found.low, found.high, color=style.COLOURS[1], alpha=0.15, linewidth=0)
                axes.axvline(found.best.value, color=style.COLOURS[1], linewidth=0.8)
            label = {"power": "power [W]"}.get(name, name.replace("_", " "))
            axes.set(xscale="log", ylabel=label)
        panels[-1, 0].set_xlabel(found.key.replace("_", " "))
        buffer = io.BytesIO()
        dates: Any = {".png": {"Software": None}, ".svg": {"Date": None}}
        kind = Path(path).suffix
        figure.savefig(buffer, format=kind[1:], metadata=dates.get(kind, {"CreationDate": None, "Producer": None}))
    write_atomically(path, buffer.getvalue())
