"""Searches that tests share."""

import tidegate

SCENARIO = {
    "name": "two hosts",
    "duration": "200us",
    "warmup": "50us",
    "drain": "1ms",
    "fabric": {"kind": "star", "hosts": 3},
    "transport": {"protocol": "swift"},
    "traffic": [
        {"kind": "poisson", "label": "small", "sizes": "20KB", "load": 0.6},
        {"kind": "poisson", "label": "large", "sizes": "50KB", "load": 0.1},
    ],
}


def small(out=None, given=SCENARIO, protocols=("swift", "poseidon"), **more):
    options = {
        "budget": 12,
        "params": ["swift.base_target", "poseidon.p"],
        "final_seeds": 2,
        "threads": 2,
        **more,
    }
    goal = "min slowdown_p99 of small"
    return tidegate.tune(given, list(protocols), goal, out=out, **options)


def trials(study):
    return [(one.protocol, one.number, one.values, one.objectives) for one in study.candidates]


def search(out=None, **more):
    return tidegate.tune(
        SCENARIO,
        ["swift", "poseidon"],
        "min slowdown_p99 of small",
        subject_to="goodput of small >= 0.5 best",
        set={"duration": "400us", "traffic.1.load": 0.35},
        budget=24,
        params=["swift.base_target", "swift.fs_range", "poseidon.p", "poseidon.k"],
        final_seeds=3,
        out=out,
        **more,
    )
