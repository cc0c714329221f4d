"""Text and JSON of ``cohsim advise``: candidates ranked by what they gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cohsim.advise import Advice, Candidate, Trial
from cohsim.report.c2c import SharedLine
from cohsim.report.sweep import plus_minus
from cohsim.report.table import count, table
from cohsim.sweep.statistics import CONFIDENCE, Estimate, estimate


def advice_document(advice: Advice) -> dict[str, Any]:
    """What ``cohsim advise --json`` writes; trials of a round by gain, largest first."""
    first = advice.start[0]
    return {
        **{key: first[key] for key in ("cohsim", "machine", "workload", "cpus")},
        "seeds": list(advice.seeds),
        "confidence": CONFIDENCE,
        "start": {name: _start(advice, name).as_json() for name in ("iterations_per_second", "cpu_utilization")},
        "rounds": [
            {
                "limits": [{"after": [step.options for step in steps], **_line(line)} for steps, line in round_.lines],
                "trials": [_trial(trial) for trial in round_.trials],
                "impossible": [{**_candidate(candidate), "why": why} for candidate, why in round_.impossible],
            }
            for round_ in advice.rounds
        ],
    }


def _start(advice: Advice, name: str) -> Estimate:
    return estimate([float(summary[name]) for summary in advice.start])


def _line(line: SharedLine) -> dict[str, Any]:
    return {"line": line.label, "verdict": str(line.verdict), "stall_share": line.stall_share, "reason": line.reason}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "kind": str(candidate.kind),
        "title": candidate.title,
        "reason": candidate.reason,
        "layouts": list(candidate.layouts),
        "locks": list(candidate.locks),
        "variants": list(candidate.variants),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "after": [step.options for step in trial.before],
        **_candidate(trial.candidate),
        "options": " ".join(step.options for step in trial.steps),
        "gain": trial.gain.as_json() if trial.gain else None,
        "cpu_time_change": trial.cost.as_json() if trial.cost else None,
        "iterations_per_second": trial.rate.as_json() if trial.rate else None,
        "certain": trial.certain,
        "message": trial.message,
    }


def render_advice(advice: Advice, top: int) -> str:
    """The report that ends in a newline; ``top`` bounds the rows of each round."""
    first = advice.start[0]
    what = "packets" if first["packet_rate_pps"] is not None else "iterations"
    rate, used = _start(advice, "iterations_per_second"), _start(advice, "cpu_utilization")
    seeds = f"{len(advice.seeds)} seeds" if len(advice.seeds) > 1 else f"seed {advice.seeds[0]}"
    head = [
        f"{first['workload']} on {first['machine']}, {first['cpus']} CPUs, {seeds}",
        f"  as it is: {' '.join(plus_minus(rate.as_json()))} {what}/s, CPU utilization {100 * used.mean:.1f}%",
        f"  gain: change of {what}/s against that, seed by seed, with its 95 % confidence interval; CPU time: change of busy time per {what[:-1]}",
    ]
    blocks = [head]
    for number, round_ in enumerate(advice.rounds, 1):
        lines = [f"==== round {number}: {_limits(round_.lines)}", ""]
        rows = [_row(trial) for trial in round_.trials[:top]]
        lines += table(["gain", "", "CPU time", f"{what}/s", "change"], rows, "><>><") if rows else ["no candidate"]
        rest = round_.trials[top:]
        if rest:
            lines.append(f"{len(rest)} more; --top {len(round_.trials)} shows all")
        blocks += [lines, _reasons(round_.trials[:top]), [f"cannot be tried: {c.title} ({why})" for c, why in round_.impossible]]
    return "\n\n".join("\n".join(block) for block in [*blocks, _conclusion(advice)] if block) + "\n"


def _limits(lines: Sequence[tuple[Sequence[Candidate], SharedLine]]) -> str:
    found = []
    for steps, line in lines:
        after = f" after '{' '.join(step.options for step in steps)}'" if steps else ""
        found.append(f"{line.label} ({line.verdict}, {100 * line.stall_share:.0f}% of busy time){after}")
    return "what limits is " + "; ".join(found)


def _row(trial: Trial) -> list[str]:
    options = " ".join(step.options for step in trial.steps)
    if trial.gain is None or trial.rate is None or trial.cost is None:
        return ["failed", "", "", "", f"{options}: {trial.message}"]
    if trial.gain.half_width is None:
        spread = "one seed"
    else:
        spread = f"± {100 * trial.gain.half_width:.1f}" + ("" if trial.certain else " (noise)")
    return [f"{100 * trial.gain.mean:+.1f}%", spread, f"{100 * trial.cost.mean:+.1f}%", count(trial.rate.mean), options]


def _reasons(trials: Sequence[Trial]) -> list[str]:
    """Why each change was tried, each once."""
    said: dict[tuple, str] = {}
    for trial in trials:
        c = trial.candidate
        said.setdefault(c.change, f"  {c.options}: {c.title}" + ("" if c.variants else f" [{c.reason}]"))
    return ["why:", *said.values()] if said else []


def _conclusion(advice: Advice) -> list[str]:
    trials = [trial for round_ in advice.rounds for trial in round_.trials if trial.gain is not None and trial.gain.mean > 0]
    trials = [trial for trial in trials if trial.certain or len(advice.seeds) == 1]
    if not trials:
        return ["no candidate gains more than the seeds differ"]
    best = max(trials, key=lambda trial: trial.gain.mean if trial.gain else 0.0)
    assert best.gain is not None
    words = ", then ".join(step.title for step in best.steps)
    return [f"most: {words}: {100 * best.gain.mean:+.0f}%"]
