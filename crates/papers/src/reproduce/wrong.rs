//! Negative controls of comparisons with numbers of other simulators.

use std::collections::BTreeSet;

use tidegate_runs::observe::{Control, Observations, adapt, drive};

use super::registry::{Figure, Paper, Run, Verdict, shared_papers};

/// The observations of a run with the first seed.
fn observed(paper: &Paper, figure: &Figure, run: &Run) -> Observations {
    let plan = figure.plan(paper, run, 1, None).unwrap();
    let control = Control {
        partitions: None,
        threads: 1,
        ranks: None,
        is_interrupted: &|| false,
        progress: &|_| {},
        chunk: &adapt,
    };
    drive(&plan, figure.recording(run).measures(&plan), &control).unwrap().seen
}

/// The claims of a run that are within their bounds if it has these observations.
fn held<'a>(figure: &'a Figure, run: &Run, seen: &Observations) -> BTreeSet<&'a str> {
    let runs = [seen];
    let claims = figure.claims.iter().filter(|claim| {
        let is_its = claim.all_queries().all(|query| query.runs == [run.name.clone()]);
        let value = || claim.value(|query, name| figure.value(query, name, |_| &runs));
        is_its && claim.verdict(value()) == Verdict::Reproduced
    });
    claims.map(|claim| &*claim.name).collect()
}

#[test]
fn comparisons_notice_a_wrong_parameter() {
    let (mut controls, mut faults) = (0, Vec::new());
    for paper in shared_papers() {
        for (figure, wrong) in
            paper.figures.iter().flat_map(|figure| figure.wrong.iter().map(move |of| (figure, of)))
        {
            let name = format!("{}/{} {}", paper.name, figure.name, wrong.run);
            let chosen = &figure.runs[figure.run(&wrong.run).expect(&name)];
            let [right, broken] = [chosen.clone(), wrong.run(figure)]
                .map(|run| held(figure, chosen, &observed(paper, figure, &run)));
            let noticed: BTreeSet<&str> = right.difference(&broken).copied().collect();
            let expected: BTreeSet<&str> = wrong.claims.iter().map(String::as_str).collect();
            if expected.is_empty() || !expected.is_subset(&noticed) {
                faults.push(format!("{name}: {noticed:?}"));
            }
            controls += 1;
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(controls >= 4, "{controls} controls");
}
