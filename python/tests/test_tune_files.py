"""The folder of a search: its scenarios, its settings, and its lock."""

import fcntl
import json
import shutil
from dataclasses import replace

import pytest

import tidegate
from tidegate._tune import files
from tidegate._tune.search import Bench
from tuning import SCENARIO, search, small

pytest.importorskip("optuna")
pytest.importorskip("scipy")

OTHER = {
    "swift": {"base_target": "31us", "fs_range": "87us"},
    "poseidon": {"p": "43us", "k": "3us"},
}
"""Parameters that are no defaults."""


def test_the_scenario_holds_the_values_of_the_table(tmp_path):
    study = search(tmp_path / "out", cache=tmp_path / "cache")
    bench = Bench(SCENARIO, [], {}, None, tmp_path / "cache", None, False)
    for is_improved in (False, True):
        answers = [
            replace(one, is_improved=is_improved, values={**one.values, **OTHER[one.protocol]})
            for one in study.protocols
        ]
        files.write_study(tmp_path, replace(study, protocols=tuple(answers)), bench)
        for one in answers:
            path = tmp_path / f"{one.protocol}.toml"
            params = tidegate.load(path).resolved["transport"]["params"]
            catalog = {it.name: it for it in tidegate.protocols()}[one.protocol]
            default = {it.name: it.default for it in catalog.parameters}
            for name, other in OTHER[one.protocol].items():
                assert params[name] == (other if is_improved else default[name])
            assert ("with its defaults" in path.read_text()) != is_improved


def test_a_scenario_with_files_runs_as_it_is(tmp_path):
    given, out = tmp_path / "given", tmp_path / "tuned"
    (given / "sizes").mkdir(parents=True)
    (given / "sizes" / "small.csv").write_text("size_bytes,cdf\n20000,1\n")
    (given / "large.csv").write_text("size_bytes,cdf\n50000,1\n")
    named = ("sizes/small.csv", str(given / "large.csv"))
    traffic = [{**one, "sizes": name} for one, name in zip(SCENARIO["traffic"], named, strict=True)]
    path = given / "mine.toml"
    path.write_text(tidegate._native.toml_document(json.dumps({**SCENARIO, "traffic": traffic})))
    options = {"params": ["swift.base_target"], "budget": 2, "final_seeds": 2, "threads": 1}
    goal = "min slowdown_p99 of small"
    tidegate.tune(path, "swift", goal, cache=tmp_path / "cache", out=out, **options)
    shutil.rmtree(given)
    run = tidegate.run(out.rename(tmp_path / "elsewhere") / "swift.toml")
    assert len(run.flows) > 0
    assert not list((tmp_path / "elsewhere").rglob("*.partial"))


def test_a_folder_belongs_to_one_search(tmp_path):
    out, cache = tmp_path / "out", tmp_path / "cache"
    options = {"protocols": ["swift"], "params": ["swift.base_target"], "budget": 2}
    small(out, cache=cache, **options)
    before = json.loads((out / "tune.json").read_text())
    assert before["protocols"][0]["protocol"] == "swift"
    again = {**options, "protocols": ["poseidon"], "params": ["poseidon.p"]}
    small(out, cache=cache, force=True, **again)
    assert (out / "poseidon.toml").exists() and not (out / "swift.toml").exists()
    other = tmp_path / "mine"
    other.mkdir()
    (other / "swift.toml").write_text("mine")
    for force in (False, True):
        with pytest.raises(tidegate.UsageError, match="files of something else"):
            small(other, cache=cache, force=force, **options)
    assert (other / "swift.toml").read_text() == "mine"
    # A search that opened the file before it was locked excludes others as well.
    with (out / files.LOCK).open("w") as opened:
        with files.locked(out), pytest.raises(tidegate.UsageError, match="another search"):
            small(out, cache=cache, force=True, **options)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(tidegate.UsageError, match="another search"):
            small(out, cache=cache, force=True, **options)
    # A refused search makes no runs.
    with pytest.raises(tidegate.UsageError, match="already holds the results"):
        small(out, cache=tmp_path / "unused", **again)
    assert not (tmp_path / "unused").exists()
    # A changed scenario is no continuation.
    (out / "tune.json").unlink()
    with pytest.raises(tidegate.UsageError, match="another state of the scenario"):
        small(out, {**SCENARIO, "duration": "190us"}, cache=cache, **again)
    log = out / "search.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"{cut\n", *lines[2:]]))
    with pytest.raises(tidegate.OutputError, match=r"search.log: line 3 is damaged: add --force"):
        small(out, cache=cache, **again)
    # An interruption may leave an incomplete last line.
    log.write_bytes(b"".join(lines)[:-5])
    assert [one.number for one in small(out, cache=cache, **again).candidates] == [0, 1]


def test_other_settings_are_no_continuation(tmp_path):
    def tune(objective="min slowdown_p99 of small", **more):
        options = {"params": ["swift.base_target"], "budget": 2, "final_seeds": 2, "threads": 1}
        options.update(out=tmp_path / "out", cache=tmp_path / "cache", **more)
        return tidegate.tune(SCENARIO, "swift", objective, **options)

    tune()
    (tmp_path / "out" / "tune.json").unlink()
    for more in [
        {"over": {"traffic.0.load": [0.5]}},
        {"search_seed": 2},
        {"objective": "max slowdown_p99 of small"},
        {"subject_to": "drops <= 1e9"},
        {"seeds": 1},
        {"set": {"traffic.1.load": 0.2}},
        {"ranges": {"swift.base_target": ("20us", "40us")}},
        {"short_runs": 2},
    ]:
        with pytest.raises(tidegate.UsageError, match="other settings"):
            tune(**more)
    assert len(tune().candidates) == 2


def test_force_removes_the_files_of_a_search(tmp_path):
    settings, own = {"protocols": ["swift"]}, tmp_path / "other.txt"
    files.begin(tmp_path, settings, force=False)
    (tmp_path / files.FILES).mkdir()
    old = ["tune.json", "search.log", "trials.csv", "tune.html", "swift.toml", "front-1.toml"]
    for name in [*old, f"{files.FILES}/sizes.csv", own.name]:
        (tmp_path / name).touch()
    files.begin(tmp_path, settings, force=True)
    assert {one.name for one in tmp_path.iterdir()} == {files.SETTINGS, own.name}


def test_an_unusable_folder_is_explained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(tidegate.UsageError, match="file is a file, expected a folder"):
        files.check(tmp_path / "file", {}, force=False)
    # A search was killed while it wrote its settings.
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / f".{files.SETTINGS}.partial").touch()
    files.check(tmp_path / "killed", {}, force=False)
    (tmp_path / files.LOCK).mkdir()
    words = "is a folder, expected the search's lock file"
    with pytest.raises(tidegate.OutputError, match=words), files.locked(tmp_path):
        pass
