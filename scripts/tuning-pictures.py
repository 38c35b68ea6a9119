"""Keep a figure of each search of docs/tuning-examples.md in docs/pictures.

python scripts/tuning-pictures.py RESULTS

RESULTS holds the folders that the searches wrote: cluster, storage and training. The file
docs/pictures/tuning.json records what the figures show: the hash of the scenario, parameters
included, under each protocol. A test compares it with the present scenarios.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import tidegate

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"

FIGURES = {
    "cluster": {"": "defaults (hollow)", "-curves": "The most important parameter"},
    "storage": {"": "defaults (hollow)", "-curves": "The most important parameter"},
    "training": {"": "Pareto front", "-curves": "The most important parameter"},
}
"""The figures of `tune.html` that are kept: the end of their names, and a part of the caption."""


def shorter(path: str) -> str:
    """Return a path with coordinates of one decimal: a tenth of a point."""
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", path)


def main() -> None:
    """Write the pictures and the record."""
    results = Path(sys.argv[1])
    shown = {}
    for name, captions in FIGURES.items():
        page = (results / name / "tune.html").read_text()
        figures = re.findall(r"<figure>(.*?)<figcaption>(.*?)</figcaption>", page, re.S)
        for end, words in captions.items():
            svg = next(svg for svg, caption in figures if words in caption)
            # Dates would change the file with every search.
            svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
            svg = re.sub(r' d="[^"]*"', lambda path: shorter(path[0]), svg)
            (PICTURES / f"tuning-{name}{end}.svg").write_text(svg + "\n")
        study = json.loads((results / name / "tune.json").read_text())
        scenario = ROOT / "scenarios" / "tune" / f"{name}.toml"
        for one in sorted(of["protocol"] for of in study["protocols"]):
            plan = tidegate.load(scenario, set={"transport.protocol": one})
            shown[f"{name}/{one}"] = plan.hash
    (PICTURES / "tuning.json").write_text(json.dumps(shown, indent=2) + "\n")


main()
