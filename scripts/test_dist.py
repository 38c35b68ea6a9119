"""Test the files in dist/ where nothing of the project is installed (docs/releasing.md).

Usage: test_dist.py [--twice]. With --twice, it first builds the last commit in a second folder and
compares the checksums.
"""

import os
import re
import shutil
import ssl
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# Seconds from the wheel to the plots of the tutorial's comparison.
LIMIT = 120
# A short run of a generated scenario.
SHORT = ["--set", "duration=100us", "--set", "warmup=10us", "--set", "drain=1ms"]


def call(command: list[str], **options: object) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"failed with status {done.returncode}: {' '.join(command)}")
    return done.stdout


def only(pattern: str) -> Path:
    """Return the only file in dist/ that matches."""
    found = list(DIST.glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist/{pattern}: {len(found)} files, expected 1: run make dist")
    return found[0]


def twice(folder: Path) -> None:
    """Build the last commit in another folder, with crates elsewhere: all files must be equal."""
    call(["git", "clone", "--quiet", str(ROOT), str(folder / "again")])
    crates = folder / "crates"
    crates.mkdir()
    # The same registry.
    usual = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "config.toml"
    if usual.exists():
        shutil.copy(usual, crates)
    environment = {**os.environ, "CARGO_HOME": str(crates)}
    call([str(folder / "again/scripts/dist.sh")], env=environment)
    sums = [
        (path / "SHA256SUMS").read_text().splitlines() for path in (DIST, folder / "again/dist")
    ]
    differences = sorted(set(sums[0]) ^ set(sums[1]))
    if differences:
        sys.exit("\n".join(["two builds differ:", *differences]))
    print(f"two folders: {len(sums[0])} equal files")


def program(folder: Path) -> None:
    """Run the program in a root directory that contains nothing else."""
    archive = only("*-linux-musl.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    unpacked = next(folder.iterdir())
    for name in ["README.md", "LICENSE-THIRD-PARTY.txt", "completions/tidegate.fish"]:
        if not (unpacked / name).stat().st_size:
            sys.exit(f"{name} is empty")
    if b"registry/src" in (unpacked / "tidegate").read_bytes():
        sys.exit("the program contains paths of the machine that built it")
    root = folder / "root"
    root.mkdir()
    shutil.copy(unpacked / "tidegate", root)

    def tidegate(*arguments: str) -> str:
        return call(["unshare", "--map-root-user", "--root", str(root), "/tidegate", *arguments])

    if "compare" not in tidegate("--help"):
        sys.exit("--help does not list the commands")
    (root / "mine.toml").write_text(tidegate("new", "leaf-spine"))
    if "packet-hops" not in tidegate("run", "/mine.toml", *SHORT):
        sys.exit("the run has no result")

    def start(command: Path) -> float:
        begin = time.perf_counter()
        call([str(command), "--version"])
        return (time.perf_counter() - begin) * 1e3

    milliseconds = statistics.median(start(root / "tidegate") for _ in range(20))
    size, packed_size = (path.stat().st_size / 1e6 for path in (root / "tidegate", archive))
    print(
        f"program: {size:.1f} MB, archive {packed_size:.1f} MB; {milliseconds:.1f} ms to start; "
        "runs in an empty root"
    )


def blocks(language: str) -> list[str]:
    """Return the code blocks of the tutorial."""
    text = (ROOT / "docs/tutorial.md").read_text()
    return re.findall(rf"```{language}\n(.*?)\n```", text, re.DOTALL)


def copy(file: Path, root: Path) -> None:
    """Copy a file, with its directories, to the same path below a root directory."""
    target = root / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def libraries(files: list[Path]) -> set[Path]:
    """Return the shared libraries of programs and extension modules, with the loader."""
    found = call(["ldd", *map(str, files)], stderr=subprocess.DEVNULL)
    return {Path(path) for path in re.findall(r"(/\S+\.so\S*) \(0x", found)}


def python_root(root: Path) -> str:
    """Make a root directory with this Python, a shell and certificates. Return Python's path."""
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    standard = Path(sysconfig.get_path("stdlib"))
    # Debian keeps the wheels of ensurepip here.
    for source in [standard, Path("/usr/share/python-wheels")]:
        if source.exists():
            shutil.copytree(
                source,
                root / source.relative_to("/"),
                symlinks=True,
                ignore=shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__"),
            )
    shell = Path(os.path.realpath("/bin/sh"))
    for program in (python, shell):
        copy(program, root)
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy(shell, root / "bin/sh")
    # Wheels for manylinux may need these libraries of the system, beside the C library.
    needed = libraries([python, shell, *standard.rglob("*.so")])
    directory = next(path for path in needed if path.name.startswith("libc.so")).parent
    for name in ["libstdc++.so.6", "libgcc_s.so.1", "libz.so.1"]:
        places = [directory / name, Path("/usr") / directory.relative_to("/") / name]
        needed |= {place for place in places if place.exists()}
    certificates = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    settings = ["/etc/hosts", "/etc/nsswitch.conf", "/etc/pip.conf", "/etc/resolv.conf"]
    for path in [*needed, *map(Path, settings), *([Path(certificates)] if certificates else [])]:
        if path.exists():
            copy(path, root)
    for name in ["dev", "proc", "tmp", "home"]:
        (root / name).mkdir()
    return str(python)


def tutorial(folder: Path) -> None:
    """Install the wheel where only Python is, and follow the tutorial up to the plots."""
    root = folder / "root"
    root.mkdir()
    python = python_root(root)
    home = root / "home"
    wheel = only("*.whl")
    shutil.copy(wheel, home)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_CERT")) or name.lower().endswith("_proxy")
    }
    # /usr/sbin is for chroot, outside the root directory.
    plain = {"PATH": "/home/env/bin:/bin:/usr/sbin", "HOME": "/home", "LANG": "C.UTF-8"}
    environment = {**kept, **plain, "MPLBACKEND": "Agg"}
    enter = 'mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
    unshare = [str(shutil.which("unshare")), "--map-root-user", "--mount", "/bin/sh", "-c", enter]

    def inside(*command: str) -> None:
        change = ["/bin/sh", "-c", 'cd /home && exec "$@"', "sh"]
        call([*unshare, str(root), *change, *command], env=environment)

    def shell(line: str) -> None:
        inside("sh", "-c", line)

    begin = time.perf_counter()
    inside(python, "-m", "venv", "env")
    inside("pip", "install", "--quiet", f"{wheel.name}[plot]", "pandas")
    installed = time.perf_counter() - begin
    scenario = next(block for block in blocks("toml") if "duration" in block)
    (home / "mine.toml").write_text(scenario)
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    lines = [line for line in lines if line.startswith("tidegate ")]
    report = next(i for i, line in enumerate(lines) if line.startswith("tidegate report"))
    for line in lines[:report]:
        shell(line)
    (example,) = blocks("python")
    save = "\nimport matplotlib.pyplot\nmatplotlib.pyplot.savefig('queue.png')\n"
    inside("python", "-c", example + save)
    shell(lines[report])
    seconds = time.perf_counter() - begin
    for name in ["queue.png", "report.html"]:
        if (home / name).stat().st_size < 10_000:
            sys.exit(f"{name} is too small for a plot")
    print(
        f"wheel: {wheel.stat().st_size / 1e6:.1f} MB; {installed:.0f} s to install, "
        f"{seconds:.0f} s to the plots of the tutorial's comparison, in a root with Python only"
    )
    if seconds > LIMIT:
        sys.exit(f"from the wheel to the plots: {seconds:.0f} s, at most {LIMIT}")
    for line in lines[report + 1 :]:
        shell(line)


def main() -> None:
    """Run all tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=DIST)
        if "--twice" in sys.argv[1:]:
            twice(folder)
        for test in (program, tutorial):
            own = folder / test.__name__
            own.mkdir()
            test(own)


if __name__ == "__main__":
    main()
