"""Write the table of claims: what the paper says, what we measured, and whether it holds.

    python -m benchmarks.paper.claims                    # reads docs/results/*.json, writes docs/results/claims.md

Verdicts and numbers come from the result files that the named commands wrote.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from benchmarks.paper.claims.evidence import FAILS, HOLDS, NOT_MEASURED, PARTLY, UNDECIDED, Evidence
from benchmarks.paper.claims.other_experiments import all_claims
from benchmarks.paper.claims.surrogate_problems import Claim
from benchmarks.paper.claims.why import explanation
from benchmarks.report import RESULTS

VERDICTS = (HOLDS, PARTLY, FAILS, UNDECIDED, NOT_MEASURED)
MODULES = {"networks": "benchmarks.paper.networks.experiment"}
RULES = """\
`python -m benchmarks.paper.claims` writes this page from the result files in the same folder.

- A mean counts as lower than another if the difference is more than two standard errors. If neither is lower, a claim
  that one is lower is *undecided*, and a claim that one is not worse holds.
- "In the beginning" is after one full evaluation, when a method without smaller budgets has its first result.
- A claim about several problems or methods holds if it holds for all of them; if some were not measured, it holds
  *where measured*.
- Numbers are mean regrets ± standard errors, unless stated otherwise.
"""
REASONS = """\
## Why claims do not hold or are undecided

Signed numbers are differences in standard errors; positive ones speak for the claim.
"""


def command_of(claim: Claim, evidence: Evidence) -> str:
    """Return the commands stored in the results, or else the one that would make them."""
    if claim.experiment is None:
        return "–"
    source = evidence.bodies.get(claim.experiment, {}).get("source", {})
    stored = [part["command"] for part in (source, *source.get("added", ())) if "command" in part]
    commands = stored or [f"python -m {MODULES.get(claim.experiment, 'benchmarks.paper.' + claim.experiment)}"]
    return ", then ".join(f"`{command}`" for command in commands)


def page(evidence: Evidence) -> str:
    """Return the whole page."""
    lines, reasons = [], []
    verdicts: Counter[str] = Counter()
    for claim in all_claims():
        finding = claim.test(evidence)
        verdicts[finding.verdict] += 1
        if finding.verdict in (FAILS, UNDECIDED):
            why = explanation(finding, claim.why, evidence)
            reasons.append(f"- **{claim.where}: {claim.says}** – {finding.verdict}. {why}".rstrip())
        cells = (claim.where, claim.says, finding.numbers or "–", f"**{finding.verdict}**", command_of(claim, evidence))
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    counts = ", ".join(f"{verdict}: {verdicts[verdict]}" for verdict in VERDICTS)
    head = ["# The paper's claims, one by one", "", RULES, f"{len(lines)} claims; {counts}.", ""]
    columns = ["| where | the paper says | we measured | verdict | command |", "|---|---|---|---|---|"]
    section = ["", REASONS, *reasons] if reasons else []
    return "\n".join([*head, *columns, *lines, *section]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results and of the page")
    args = parser.parse_args()
    text = page(Evidence(args.out))
    (args.out / "claims.md").write_text(text)
    print(text)
