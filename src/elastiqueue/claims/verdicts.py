"""The papers' claims, judged on the results of a run.

A claim holds if all contrasts of its parts are positive, thus

    supported      every contrast has p for <= alpha. This is an intersection-union test (Berger 1982): its level is
                   alpha without a correction for the number of contrasts.
    contradicted   some contrast is negative: Holm's procedure (1979) at level alpha over the claim's contrasts.
    undecided      neither; also where the run lacks data that a part asks for.

alpha = level / number of claims in the file. Of the two verdicts on a claim only one can be wrong, whatever the truth,
so that by Bonferroni's inequality the probability of any wrong verdict in the whole table is at most `level`.

Of k readings of a sentence each is judged so at level alpha / k. If all of them have the same verdict, it is that of
the claim; if some are supported and some contradicted, the claim `depends on the reading`; else it is undecided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastiqueue.claims.contrasts import UNDECIDED, Contrast
from elastiqueue.claims.quantities import Results
from elastiqueue.claims.schema import Claim, Claims
from elastiqueue.claims.vocabulary import contrasts

SUPPORTED, CONTRADICTED, DEPENDS = "supported", "contradicted", "depends on the reading"
VERDICTS = (SUPPORTED, CONTRADICTED, DEPENDS, UNDECIDED)


def judged(found: Sequence[Contrast], alpha: float) -> list[Contrast]:
    """The contrasts with their verdicts: each `for` at alpha, `against` by Holm's step-down procedure."""
    pairs = [contrast.p_values() for contrast in found]
    order = sorted(range(len(found)), key=lambda i: pairs[i][1])
    against: set[int] = set()
    for rank, i in enumerate(order):
        if pairs[i][1] > alpha / (len(found) - rank):
            break
        against.add(i)
    return [
        replace(contrast, verdict=CONTRADICTED if i in against else SUPPORTED if pairs[i][0] <= alpha else UNDECIDED)
        for i, contrast in enumerate(found)
    ]


def _all_of(verdicts: Sequence[str]) -> str:
    return next((word for word in (CONTRADICTED, UNDECIDED) if word in verdicts), SUPPORTED)


def _over_readings(verdicts: Sequence[str]) -> str:
    words = set(verdicts)
    if {SUPPORTED, CONTRADICTED} <= words:
        return DEPENDS
    return words.pop() if len(words) == 1 else UNDECIDED


def _tightest(found: Sequence[Contrast]) -> Contrast:
    """The contrast on which the verdict hangs: the least margin in standard errors among those of the worst verdict."""
    rank = {CONTRADICTED: 0, UNDECIDED: 1, SUPPORTED: 2}
    return min(found, key=lambda contrast: (rank[contrast.verdict], contrast.value is None, contrast.margin_in_se))


def _judge_claim(claim: Claim, results: Results, alpha: float) -> dict[str, Any]:
    tested = claim.tested()
    groups = [contrasts(results, part) for part in tested]
    if claim.readings:
        alpha /= len(groups)
        groups = [judged(group, alpha) for group in groups]
    else:
        flat = iter(judged([contrast for group in groups for contrast in group], alpha))
        groups = [[next(flat) for _ in group] for group in groups]
    verdicts = [_all_of([contrast.verdict for contrast in group]) for group in groups]
    return {
        "paper": claim.paper,
        "where": claim.where,
        "statement": " ".join(claim.statement.split()),
        "figures": claim.figures,
        "note": " ".join(claim.note.split()),
        "verdict": (_over_readings if claim.readings else _all_of)(verdicts),
        "tightest": _tightest([contrast for group in groups for contrast in group]).record(alpha),
        **({"readings": [list(names) for names, _ in claim.readings.parts()]} if claim.readings else {}),
        "parts": [
            {
                "test": getattr(part, "test", ""),
                "says": " ".join(part.says.split()),
                "verdict": verdict,
                "tightest": _tightest(group).record(alpha),
                "contrasts": [contrast.record(alpha) for contrast in group],
            }
            for part, verdict, group in zip(tested, verdicts, groups, strict=True)
        ],
    }


def judge(claims: Claims, results: Results, only: Collection[str] = ()) -> dict[str, Any]:
    """The verdicts on all claims (or some, at the level of all), as they are written to claims.json."""
    wanted = {name: claim for name, claim in claims.claims.items() if not only or name in only}
    verdicts = {name: _judge_claim(claim, results, claims.alpha) for name, claim in wanted.items()}
    return {"level": claims.level, "alpha": claims.alpha, "tolerance": claims.tolerance, "claims": verdicts}


def counts(verdicts: Mapping[str, Any]) -> str:
    """How many claims have which verdict, in words."""
    words = [claim["verdict"] for claim in verdicts["claims"].values()]
    return ", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)


def write_verdicts(verdicts: Mapping[str, Any], run: str, folder: str | Path) -> None:
    """Write claims.json and claims.md."""
    from elastiqueue.claims.pages import markdown
    from elastiqueue.results.files import json_text, write_checked

    write_checked(Path(folder) / "claims.json", json_text({"run": run, **verdicts}))
    write_checked(Path(folder) / "claims.md", markdown(verdicts, run))
