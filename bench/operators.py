# SPDX-License-Identifier: Apache-2.0
"""docs/OPERATORS.md: the operators with their rules, and what becomes of real models on each core.

    python -m bench.operators                     writes the text, from the rules and docs/operators.json
    python -m bench.operators CORE [CORE ...]     first measures the models again on these cores (`all`: on all)

The models are looked for in ../shared beside the project. Each runs on the emulated core and is held to its golden
outputs; docs/operators.json keeps the counts and the reasons.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiler.ops import operators
from compiler.ops.definition import rule
from compiler.support import CUSTOM, OTHER_CUSTOM
from tests.ops.outcomes import CORES, Outcome, Verdict, outcomes
from tests.zoo.golden import Case, read_case
from toolchain.files import write_text

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
RESULTS, TEXT = ROOT / "docs" / "operators.json", ROOT / "docs" / "OPERATORS.md"
COLLECTIONS = {"networks": "zoo", "operator tests": "ops", "operator tests of other projects": "zoo/ops3p"}
_REASON = re.compile(r"^    operator \d+ (?P<op>\S+) \(.*?\): (?P<reason>.*)$", re.MULTILINE)
ROWS = 2
"""Of a network: deep ones take minutes on a core without multiplier."""
HEAD = """# Operators

A model is compiled when each of its operators keeps the rules below; what breaks one is refused at build time, with the
operator, what was found, and the rule. `scons ops` prints the same rules. This file is made by
`python -m bench.operators`.

## Results

Whole networks and single-operator models, run on each core under the emulator (`host`: on the building machine) and
compared with the outputs of the reference: integers bit for bit, floats within 1e-4 of the output's range. *Too large*
models need more memory than the emulated machine has.

"""
LIMITS = """## Limits

All builtin operators that TFLite Micro has are supported, by the rules below. 4-bit weights give the reference's bytes,
but take a byte each in flash. IF and WHILE are followed at build time, so what they depend on must be constant.

Custom operators are not supported:

"""


def measure(core: str) -> dict[str, dict[str, Any]]:
    """By collection: counts of verdicts, and why models did not match."""
    found: dict[str, dict[str, Any]] = {}
    for title, part in COLLECTIONS.items():
        folder = SHARED / part
        names = [path.stem for path in sorted((folder / "models").glob("*.tflite"))]

        def load(name: str, folder: Path = folder) -> Case:
            case = read_case(folder / "models" / f"{name}.tflite", folder / "golden" / f"{name}.npz")
            return replace(case, rows=case.rows[:ROWS]) if folder.name == "zoo" else case

        with tempfile.TemporaryDirectory(prefix="tinykiln-") as scratch:
            results = list(outcomes(core, names, load, Path(scratch)))
        found[title] = _summary(results)
        print(core, title, json.dumps(found[title]["counts"]), flush=True)
    return found


def _summary(results: list[Outcome]) -> dict[str, Any]:
    counts = Counter(outcome.verdict.value for outcome in results)
    rest = sorted((o for o in results if o.verdict is not Verdict.MATCHED), key=lambda o: o.name)
    return {
        "counts": {verdict.value: counts[verdict.value] for verdict in Verdict},
        "reasons": {outcome.name: f"{outcome.verdict.value}: {_short(outcome)}" for outcome in rest},
    }


def _short(outcome: Outcome) -> str:
    """The reasons of an unsupported model, those of several operators once; of others the first line."""
    operators_of: dict[str, set[str]] = {}
    for match in _REASON.finditer(outcome.reason):
        operators_of.setdefault(match["reason"], set()).add(match["op"])
    if outcome.verdict is Verdict.REFUSED and operators_of:
        return "; ".join(f"{', '.join(sorted(ops))}: {reason}" for reason, ops in operators_of.items())
    return next(iter(outcome.reason.splitlines()), "")


def render(results: Mapping[str, Any]) -> str:
    """The whole text."""
    parts = [HEAD, _table(results), "\n", _refusals(results), "\n", _limits(), "\n## Rules\n"]
    for name, definition in operators().items():
        rules = "".join(f"- {rule(constraint)}\n" for constraint in definition.constraints)
        parts.append(f"\n### {name}\n{rules}")
    return "".join(parts)


def _limits() -> str:
    custom = [f"- {name}{'*' * (name == 'Signal')}: {why}.\n" for name, why in sorted(CUSTOM.items())]
    return "".join((LIMITS, *custom, f"- Others: {OTHER_CUSTOM}.\n"))


def _table(results: Mapping[str, Any]) -> str:
    verdicts = [verdict.value for verdict in Verdict]
    lines = [f"| core | models | {' | '.join(verdicts)} |\n", f"| --- | --- |{' ---: |' * len(verdicts)}\n"]
    for core in sorted(results, key=["host", *CORES].index):
        for title in COLLECTIONS:
            counts = results[core][title]["counts"]
            lines.append(f"| {core} | {title} | {' | '.join(str(counts[v]) for v in verdicts)} |\n")
    return "".join(lines)


def _refusals(results: Mapping[str, Any]) -> str:
    """What is refused anywhere, and why; what fails, with its cores."""
    refused: dict[str, set[str]] = {}
    failing: dict[str, set[str]] = {}
    for core, collections in results.items():
        for collection in collections.values():
            for name, reason in collection["reasons"].items():
                verdict, text = reason.split(": ", 1)
                if verdict == Verdict.REFUSED.value:
                    refused.setdefault(text, set()).add(name)
                elif verdict == Verdict.FAILING.value:
                    failing.setdefault(f"{name}: {text}", set()).add(core)
    lines = ["### Refused, and why\n\n"]
    lines += sorted(f"- {', '.join(sorted(names))}: {text}\n" for text, names in refused.items())
    if failing:
        lines.append("\n### Failing\n\n")
        lines += [f"- {text} ({', '.join(sorted(cores))})\n" for text, cores in sorted(failing.items())]
    return "".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.operators", description="writes docs/OPERATORS.md")
    known = ("host", *CORES)
    parser.add_argument("cores", nargs="*", metavar="CORE", help=f"all, or some of {', '.join(known)}")
    chosen = parser.parse_args(arguments).cores
    wrong = sorted(set(chosen) - {*known, "all"})
    if wrong:
        parser.error(f"no such core: {', '.join(wrong)}")
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for core in known if "all" in chosen else chosen:
        results[core] = measure(core)
        write_text(RESULTS, json.dumps(results, indent=1, sort_keys=True) + "\n")
    write_text(TEXT, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
