"""Write the table of claims: what the paper says, what we measured, and whether it holds.

    python -m benchmarks.paper.claims                    # reads docs/results/*.json, writes docs/results/claims.md

Verdicts and numbers come from the result files that the named commands wrote.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from benchmarks.paper.claims.evidence import FAILS, HOLDS, NOT_MEASURED, PARTLY, UNDECIDED, Evidence, Finding
from benchmarks.paper.claims.other_experiments import all_claims
from benchmarks.paper.claims.surrogate_problems import Claim
from benchmarks.paper.claims.why import explanation
from benchmarks.report import RESULTS, opening

VERDICTS = {
    HOLDS: "hold",
    PARTLY: "hold where measured",
    FAILS: "do not hold",
    UNDECIDED: "are undecided",
    NOT_MEASURED: "were not measured",
}
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
DETAILS = """\
## Details

All numbers of each claim, and the command that measured them. A claim that does not hold or is undecided has a reason.
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
    """Return the whole page: a row for each claim, and the details of each, folded."""
    rows, details = [], []
    verdicts: Counter[str] = Counter()
    for claim in all_claims():
        finding = claim.test(evidence)
        verdicts[finding.verdict] += 1
        cells = (claim.where, claim.says, f"**{finding.verdict}**", one_number(finding))
        rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
        details += details_of(claim, finding, evidence)
    counts = ", ".join(f"{verdicts[verdict]} {words}" for verdict, words in VERDICTS.items() if verdicts[verdict])
    lines = opening(
        "The paper's claims, one by one",
        "Which claims of the paper's §5 do our experiments confirm?",
        [f"Of {len(rows)} claims, {counts}.", "The numbers of each claim are below the table."],
    )
    lines += [RULES, "| where | the paper says | verdict | in numbers |", "|---|---|---|---|", *rows, "", DETAILS]
    return "\n".join([*lines, *details]) + "\n"


def one_number(finding: Finding) -> str:
    """Return the shortest account of a finding: in how many comparisons it holds, or the only difference."""
    parts = [part for part in finding.parts or (finding,) if part.verdict != NOT_MEASURED]
    if len(parts) > 1:
        return f"{sum(part.verdict == HOLDS for part in parts)} of {len(parts)} comparisons"
    if parts and parts[0].gap is not None:
        return f"{parts[0].gap:+.1f} standard errors".replace("-", "−")
    first, *more = finding.numbers.split("; ")
    return f"{first} (and {len(more)} more)" if len(more) > 1 else finding.numbers or "–"


def details_of(claim: Claim, finding: Finding, evidence: Evidence) -> list[str]:
    """Return the numbers, the reason and the command of a claim, which a reader unfolds."""
    lines = ["<details>", f"<summary>{claim.where}: {claim.says} ({finding.verdict})</summary>", ""]
    if finding.verdict in (FAILS, UNDECIDED):
        lines += [f"**Why.** {explanation(finding, claim.why, evidence)}".rstrip(), ""]
    lines += [
        *(f"- {text}" for text in finding.numbers.split("; ") if text),
        f"- command: {command_of(claim, evidence)}",
    ]
    return [*lines, "", "</details>", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results and of the page")
    args = parser.parse_args()
    text = page(Evidence(args.out))
    (args.out / "claims.md").write_text(text)
    print(text)
