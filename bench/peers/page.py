"""The page of the comparison: `python -m bench.peers.page` writes docs/benchmarks.md and its plot.

Figures come from the newest file in bench/results alone; nobody writes one by hand. `--keep` first puts the last run
there, bench/results/local/peers.json, under its date and the cores of its machine.
"""

import html
import json
import sys
from pathlib import Path
from typing import Any

from bench.peers.figures import METRICS, ratio, summary, written
from bench.peers.frame import ROOT
from bench.peers.registry import PEERS
from bench.peers.workloads import recovery_seconds

Results = dict[str, Any]

KEPT = ROOT / "bench" / "results"
OUTPUT = KEPT / "local" / "peers.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "benchmarks.svg"
TABLES = (
    ("submit", "bulk", "drain1", "drain2", "million", "snapshot", "steps"),
    ("p50", "p99", "default", "best", "runner", "killed"),
)
PLOTTED = ("drain1", "bulk", "steps", "p50")

FIGURES = """A figure here is worth something only beside the others of the same run; another machine gives others.
{about}

![Holdfast beside its peers]({plot})

{tables}

Each cell is the median of its rounds, below it the least and the most of them, and how many times better Holdfast was
in that run (`x 2` for a rate: twice as many; for a time: half as long). "-": not offered, or not measured.
{failures}"""

NO_FIGURES = "No run is kept yet."


def main() -> None:
    if "--keep" in sys.argv:
        keep()
    results = newest()
    PAGE.write_text(page(results))
    if results:
        PLOT.write_text(plot(results))
    print(f"Written: {PAGE.relative_to(ROOT)}")


def keep() -> None:
    results = json.loads(OUTPUT.read_text())
    (KEPT / f"{results['at'][:10]}-peers-{results['machine']['cores']}-cores.json").write_text(OUTPUT.read_text())


def newest() -> Results | None:
    """The kept run whose file comes last, which is the newest."""
    kept = sorted(KEPT.glob("*-peers-*-cores.json"))
    return json.loads(kept[-1].read_text()) if kept else None


def page(results: Results | None) -> str:
    text = figures(results).rstrip() if results else NO_FIGURES
    return (
        (Path(__file__).parent / "page.md")
        .read_text()
        .format(figures=text, patience=recovery_seconds, peers=peers(results))
    )


def figures(results: Results) -> str:
    machine = results["machine"]
    settings = ", ".join(f"`{name} = {value}`" for name, value in machine["settings"].items())
    about = (
        f"These are of {results['at'][:10]}: {machine['cores']} cores, {machine['memory_gb']} GB, Python"
        f" {machine['python']}, PostgreSQL {machine['postgres']} ({settings}), {results['rounds']} rounds in turn,"
        f" commit `{results['commit'][:12]}`."
    )
    return FIGURES.format(about=about, plot=PLOT.name, tables=tables(results), failures=failures(results))


def tables(results: Results) -> str:
    return "\n\n".join(table(results, group) for group in TABLES)


def table(results: Results, group: tuple[str, ...]) -> str:
    listed = [metric for metric in group if any(summary(results, metric, peer) for peer in results["peers"])]
    lines = ["| | " + " | ".join(METRICS[metric].title for metric in listed) + " |", "|---" * (len(listed) + 1) + "|"]
    for peer in results["peers"]:
        cells = [cell(results, metric, peer) for metric in listed]
        if any(cell != "-" for cell in cells):
            lines.append(f"| **{peer}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(results: Results, metric: str, peer: str) -> str:
    found = summary(results, metric, peer)
    if found is None:
        return "never" if is_never(results, metric, peer) else "-"
    spread = f"<br>{written(metric, found.least)} to {written(metric, found.most)}" if found.least != found.most else ""
    times = ratio(results, metric, peer)
    beside = f"<br>x {times:.2g}" if times and peer != "holdfast" else ""
    return f"{written(metric, found.median)}{spread}{beside}"


def is_never(results: Results, metric: str, peer: str) -> bool:
    reasons = results["failures"].get(metric, {}).get(peer, [])
    return any(reason.endswith("every task is finished") for reason in reasons)


def failures(results: Results) -> str:
    """Who is missing, and why."""
    lines = [f"- {name}: {about['absent']}" for name, about in results["peers"].items() if "absent" in about]
    for workload, peers in results["failures"].items():
        lines += [
            f"- {peer}, {workload}: {reasons[0]}"
            for peer, reasons in peers.items()
            if not is_never(results, workload, peer)
        ]
    return "\nMissing:\n\n" + "\n".join(lines) + "\n" if lines else ""


def peers(results: Results | None) -> str:
    lines = ["| | settings | what becomes of a task |", "|---|---|---|"]
    for peer in PEERS:
        about = results["peers"].get(peer.name, {}) if results else {}
        version = f" {about['version']}" if about.get("version") else ""
        lines.append(f"| **{peer.name}**{version} | {peer.settings}. Drains of {peer.tasks:,} | {peer.promises} |")
    return "\n".join(lines)


def plot(results: Results) -> str:
    """Bars, a group for each metric; the longest of a group fills the width."""
    row, group_gap, left, width, right = 20, 44, 150, 420, 110
    parts: list[str] = []
    y = 0
    for metric in PLOTTED:
        found = [(peer, one.median) for peer in results["peers"] if (one := summary(results, metric, peer))]
        if not found:
            continue
        found.sort(key=lambda pair: pair[1], reverse=METRICS[metric].more_is_better)
        most = max(value for _, value in found) or 1
        y += group_gap
        direction = "more is better" if METRICS[metric].more_is_better else "less is better"
        parts.append(f'<text class="head" x="0" y="{y - 10}">{html.escape(METRICS[metric].title)} ({direction})</text>')
        for peer, value in found:
            length = max(width * value / most, 1)
            kind = "ours" if peer == "holdfast" else "limit" if peer.startswith("limit") else "peer"
            parts.append(
                f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{html.escape(peer)}</text>'
                f'<rect class="{kind}" x="{left}" y="{y + 2}" width="{length:.1f}" height="{row - 5}"/>'
                f'<text x="{left + length + 6:.1f}" y="{y + 14}">{written(metric, value)}</text>'
            )
            y += row
    style = (
        "text{font:13px sans-serif;fill:#666}.head{font-weight:bold}.ours{fill:#0d7377}.peer{fill:#9aa5b1}"
        ".limit{fill:none;stroke:#9aa5b1;stroke-dasharray:3}"
    )
    size = f'viewBox="0 0 {left + width + right} {y + 10}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{style}</style>{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    main()
