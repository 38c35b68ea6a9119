"""All code blocks of the guide and all notebooks run."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import dask
import matplotlib as mpl
import nbformat
import pytest
from nbclient import NotebookClient

import tidegate

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "python.md"

# A fake sbatch: runs the job immediately on this machine. It copies the script, which is temporary.
SBATCH = """#!/bin/sh
for script in "$@"; do :; done
copy=$(mktemp) && cp "$script" "$copy"
nohup sh "$copy" >/dev/null 2>&1 &
echo "Submitted batch job $!"
"""


def blocks(language: str) -> list[tuple[int, str]]:
    """Return the code blocks of the guide, with the number of lines before each."""
    text = GUIDE.read_text()
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    return [(text.count("\n", 0, one.start(1)), one.group(1)) for one in found]


def test_guide_code_languages() -> None:
    languages = re.findall(r"^```(\w+)", GUIDE.read_text(), re.M)
    assert set(languages) == {"sh", "python"} and len(languages) > 8


def test_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "sbatch").write_text(SBATCH)
    (fake / "scancel").write_text("#!/bin/sh\nkill $* 2>/dev/null || true\n")
    for program in fake.iterdir():
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{fake}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    # On a busy machine, Python takes long to start.
    dask.config.set({"jobqueue.slurm.death-timeout": 600})
    namespace: dict[str, object] = {"__name__": "guide"}
    for line, block in blocks("python"):
        # So that exceptions name the line of the guide.
        exec(compile("\n" * line + block, GUIDE, "exec"), namespace)
    for drawn in ("messages.pdf", "queue.png", "loads.pdf"):
        assert (tmp_path / drawn).stat().st_size > 1000


def test_guide_shell_commands() -> None:
    ((_, text),) = blocks("sh")
    install, *rest = text.splitlines()
    # The environment of the tests was created by this command, with one more extra.
    extras = re.fullmatch(r"pip install '\.\[([\w,]+)\]'", install)
    assert extras is not None
    made = (ROOT / "Makefile").read_text()
    assert all(extra in made for extra in extras[1].split(","))
    for line in rest:
        done = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"tidegate {tidegate.__version__}\n"


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    nbformat.validate(content)
    assert not any(cell.get("outputs") for cell in content.cells), "outputs are not committed"
    client = NotebookClient(content, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute()
    outputs = [out for cell in content.cells for out in cell.get("outputs", ())]
    assert any("image/png" in out.get("data", {}) for out in outputs), "no picture was drawn"
