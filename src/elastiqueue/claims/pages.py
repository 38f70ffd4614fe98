"""Verdicts for readers: claims.md, and the page on which a run answers what was run and what it shows.

The page holds its images and styles, so that it is one file; its links to data lead to files beside it. The same
summary opens Snakemake's report, where a figure is reached by a call of that report's own.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastiqueue.claims.verdicts import CONTRADICTED, SUPPORTED, VERDICTS, counts
from elastiqueue.results.markdown import markdown_table, read_markdown_table

PART_HEADS = ("test", "says", "verdict", "contrasts", "tightest", "measured", "required", "margin (s.e.)")
CLAIM_HEADS = ("claim", "verdict", "statement", "where", "tightest contrast", "measured", "required", "margin (s.e.)")


def _measured(record: Mapping[str, Any]) -> str:
    if record["mean"] is None:
        return record.get("why", "")
    low, high = record["interval"]
    return f"{record['mean']:.4g} " + (f"[{low:.4g}, {high:.4g}]" if record["se"] else "exact")


def _cells(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What is compared, its value, what is required, and by how many standard errors it is on the right side."""
    if record["mean"] is None:
        return record["what"], _measured(record), "", ""
    margin = record["margin_in_se"]
    shown = "no scatter" if margin is None else f"{margin:.1f}"
    return record["what"], _measured(record), record["requirement"], shown


def part_line(part: Mapping[str, Any]) -> str:
    """A part in one line, for a terminal."""
    _, value, required, margin = _cells(part["tightest"])
    return f"{part['verdict']:<14}- {part['says']}: {value}" + (f" {required} (margin {margin} s.e.)" if margin else "")


def _source(claim: Mapping[str, Any]) -> str:
    """Where the claim is made: paper A, Section 5; empty for one of the user's own."""
    return ", ".join(filter(None, (f"paper {claim['paper']}" if claim["paper"] else "", claim["where"])))


def _claim_rows(verdicts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            name, claim["verdict"], claim["statement"], _source(claim),
            *_cells(claim["tightest"]),
        )
        for name, claim in verdicts["claims"].items()
    ]  # fmt: skip


def _part_rows(claim: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for part in claim["parts"]:
        words = [contrast["verdict"] for contrast in part["contrasts"]]
        share = f"{words.count(SUPPORTED)} of {len(words)} supported, {words.count(CONTRADICTED)} contradicted"
        rows.append((part["test"], part["says"], part["verdict"], share, *_cells(part["tightest"])))
    return rows


def readings_table(claim: Mapping[str, Any], numbers: bool = True) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table of readings: the answers to the last question are its columns."""
    rows: dict[tuple[str, ...], list[str]] = {}
    columns = list(dict.fromkeys(names[-1] for names in claim["readings"]))
    for names, part in zip(claim["readings"], claim["parts"], strict=True):
        shown = f": {_measured(part['tightest'])}" if numbers else ""
        rows.setdefault(tuple(names[:-1]), []).append(f"{part['verdict']}{shown}")
    return ["reading", *columns], [[", ".join(names), *cells] for names, cells in rows.items()]


def _table_of(claim: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return readings_table(claim) if "readings" in claim else (PART_HEADS, _part_rows(claim))


def legend(verdicts: Mapping[str, Any]) -> str:
    """How to read the verdicts."""
    alpha = verdicts["alpha"]
    return (
        "Supported: every contrast of the claim is on the right side; contradicted: one is on the wrong side (Holm "
        "over the contrasts of a claim); undecided: neither. Where a sentence can be read in several ways the verdict "
        f"says whether it depends on the reading. Each claim is judged at level {alpha:.2g}: the probability of "
        f"any wrong verdict is at most {verdicts['level']:g}. Intervals have the level of the tests, "
        f"{100 * (1 - 2 * alpha):.4g} %. The tightest contrast is that with the least margin among those on which the "
        f"verdict hangs. Near a limit means within {100 * verdicts['tolerance']:g} % of it, for every claim alike."
    )


def markdown(verdicts: Mapping[str, Any], run: str) -> str:
    """The table of claims, then what each consists of."""
    lines = [f"# Claims, judged on the run `{run}`", "", f"{counts(verdicts)}.", "", legend(verdicts), ""]
    lines += markdown_table(CLAIM_HEADS, _claim_rows(verdicts))
    for name, claim in verdicts["claims"].items():
        lines += ["", f"## {name}: {claim['verdict']}", "", claim["statement"]]
        if claim["figures"]:
            lines += ["", f"Shown in {', '.join(claim['figures'])}."]
        if claim["note"]:
            lines += ["", claim["note"]]
        lines += ["", *markdown_table(*_table_of(claim))]
    return "\n".join(lines) + "\n"


# ---- HTML ------------------------------------------------------------------------------------------------------------

STYLE = """
:root{color-scheme:light}body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62em;padding:1em;color:#222}
h1{line-height:1.2}h2{margin-top:2em;border-top:1px solid #ddd;padding-top:.8em}img{max-width:100%;height:auto}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}td,th{border:1px solid #ccc;padding:.3em .5em;
text-align:left;vertical-align:top}.v{border-radius:.3em;padding:.1em .4em;white-space:nowrap}
.supported{background:#d9f0d3}
.contradicted{background:#f4c7c3}.depends{background:#fde9b8}.undecided{background:#e4e4e4}
@media(max-width:40em){dl{grid-template-columns:1fr}dt{margin-top:.5em}.claims tr{display:block;margin:.8em 0}
.claims thead{display:none}.claims td{display:block;border:0;padding:.1em 0}}
"""


@dataclass(frozen=True)
class Figure:
    """A figure of the run, for its page."""

    name: str
    caption: str


def _verdict(word: str) -> str:
    return f'<span class="v {word.split()[0]}">{html.escape(word)}</span>'


def _html_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    words = {word: _verdict(word) for word in VERDICTS}
    body = ("".join(f"<td>{words.get(cell, html.escape(cell))}</td>" for cell in row) for row in rows)
    inner = "".join(f"<tr>{row}</tr>" for row in body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{inner}</tbody></table></div>'


def _links(names: Iterable[str], link: Callable[[str], str]) -> str:
    return ", ".join(f'<a href="{html.escape(link(name))}">{html.escape(name)}</a>' for name in names)


def summary(
    facts: Mapping[str, str],
    verdicts: Mapping[str, Any],
    figure_link: Callable[[str], str],
    claim_link: Callable[[str], str],
    figures: Iterable[str],
) -> str:
    """What was run, the counts of verdicts, and each claim with its verdict and links, as HTML."""
    known = set(figures)
    items = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>" for key, value in facts.items())
    rows = "".join(
        f"<tr><td>{_links([name], claim_link)}</td><td>{_verdict(claim['verdict'])}</td>"
        f"<td>{html.escape(claim['statement'])}</td>"
        f"<td>{_links(filter(known.__contains__, claim['figures']), figure_link)}</td></tr>"
        for name, claim in verdicts["claims"].items()
    )
    if not rows:
        return f"<dl>{items}</dl>"
    return (
        f"<dl>{items}</dl><p><strong>{html.escape(counts(verdicts))}</strong> of {len(verdicts['claims'])} claims</p>"
        '<div class="wide"><table class="claims"><thead><tr><th>claim</th><th>verdict</th><th>statement</th>'
        f"<th>figures</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def report_page(
    facts: Mapping[str, str],
    verdicts: Mapping[str, Any],
    figures: Sequence[Figure],
    output: Path,
    preview: Callable[[Path], bytes],
    beside: str = "",
    tables: Iterable[str] = (),
) -> str:
    """The page of a run as HTML.

    Parameters
    ----------
    facts : what was run, by whom and where, in the order in which it is shown.
    verdicts : what `judge` returns.
    figures : those of the run.
    output : folder with the figures' files.
    preview : image file -> bytes of a small PNG.
    beside : path from the page to `output`, empty or closed by a slash.
    tables : names of those that the page shows, from their files.
    """

    def anchor(name: str) -> str:
        return f"#{name}"

    title = f"Results of the run {facts['run']}"
    body = [f"<h1>{html.escape(title)}</h1>", summary(facts, verdicts, anchor, anchor, [one.name for one in figures])]
    body += [f"<p>{html.escape(legend(verdicts))}</p>"] if verdicts["claims"] else []
    drawn = {figure.name for figure in figures}
    shown_by: dict[str, list[str]] = {}
    for name, claim in verdicts["claims"].items():
        for figure_name in claim["figures"]:
            shown_by.setdefault(figure_name, []).append(name)
        body.append(f'<h2 id="{name}">{name} {_verdict(claim["verdict"])}</h2><p>{html.escape(claim["statement"])}</p>')
        remarks = [f"P{source[1:]}." if (source := _source(claim)).startswith("p") else source, claim["note"]]
        body.append(f"<p>{html.escape(' '.join(filter(None, remarks)))}</p>")
        if shown := [name for name in claim["figures"] if name in drawn]:
            body.append(f"<p>Shown in {_links(shown, anchor)}.</p>")
        body.append(_html_table(*_table_of(claim)))
    for figure in figures:
        image = base64.b64encode(preview(output / f"{figure.name}.png")).decode()
        files = [f"{figure.name}.pdf", f"{figure.name}.png"]
        files += [f"data/{figure.name}.csv"] if (output / "data" / f"{figure.name}.csv").exists() else []
        body.append(f'<h2 id="{figure.name}">{figure.name}</h2>')
        body.append(f'<img alt="{figure.name}" src="data:image/png;base64,{image}">')
        body.append(f"<p>{html.escape(figure.caption)}</p><p>Files: {_links(files, lambda file: beside + file)}.")
        if figure.name in shown_by:
            body.append(f" Claims: {_links(shown_by[figure.name], anchor)}.")
        body.append("</p>")
    for name in tables:
        caption, heads, rows = read_markdown_table((output / f"tables/{name}.md").read_text(encoding="utf-8"))
        files = [f"tables/{name}.{kind}" for kind in ("md", "tex", "csv")]
        body.append(f"<h2>Table {name}</h2><p>{html.escape(caption)}</p>{_html_table(heads, rows)}")
        body.append(f"<p>Files: {_links(files, lambda file: beside + file)}.</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width,initial-scale=1"><title>{html.escape(title)}</title><style>{STYLE}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def report_opening(
    facts: Mapping[str, str], verdicts: Mapping[str, Any], figures: Sequence[Figure], output: str
) -> str:
    """The text on which Snakemake's report opens, in reStructuredText: the summary, linked to its own items."""
    from urllib.parse import quote

    def item(path: str) -> str:
        return f"javascript:app.showResultInfo('{quote(f'{output}/{path}')}')"

    inner = summary(
        facts, verdicts, lambda name: item(f"{name}.png"), lambda _: item("index.html"), [one.name for one in figures]
    )
    title = f"Results of the run {facts['run']}"
    # The report centres what it shows, so that the head of what is longer than the window could not be reached.
    style = (
        STYLE[STYLE.index("dl{") :]
        + ".h-screen.items-center{align-items:flex-start}@media(max-width:60em){.grow.items-start{display:block}}"
    )
    raw = f"<style>{style}</style>{inner}".replace("<tr>", "\n<tr>")  # docutils refuses long lines
    lines = [".. raw:: html", "", *(f"   {line}" for line in raw.splitlines() if line)]
    # A template of Jinja, which takes the spaces before its own tags away: they stand in lines of their own.
    return "\n".join(["{% raw %}", title, "=" * len(title), "", *lines, "{% endraw %}"]) + "\n"
