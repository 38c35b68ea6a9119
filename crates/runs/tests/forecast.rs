//! Forecasts against whole runs.

use tidegate_runs::{
    Capture, RunOptions, Source, forecast_capture, forecast_runs, in_parallel, load, run,
};

const STAR: &str = "fabric = { kind = 'star', hosts = 32 }\ntransport = { protocol = 'swift' }\n";
const LEAF_SPINE: &str =
    "fabric = { kind = 'leaf-spine', racks = 3, spines = 2, hosts_per_rack = 8 }\n";

/// Each takes the processor about twice as long as a trial run, or longer.
fn scenarios() -> [(&'static str, String); 10] {
    let poisson = "[[traffic]]\nkind = 'poisson'\nsizes = 'websearch'\n";
    let flows = "flows = [\n\
        { src = 'h0', dst = 'h1', start = '0ms', stop = '0.1ms' },\n\
        { src = 'h2', dst = 'h20', pairs = 12, start = '50ms' },\n]\n";
    let incast = "[[traffic]]\nkind = 'incast'\nfan_in = 16\nsizes = '500KB'\ninterval = '2ms'\n";
    [
        ("steady", format!("duration = '15ms'\n{STAR}{poisson}load = 0.6\n")),
        (
            "finite messages",
            format!(
                "duration = '60ms'\n{STAR}[[traffic]]\nkind = 'permutation'\nsizes = '200MB'\n"
            ),
        ),
        (
            "until done",
            format!(
                "duration = '2s'\nuntil = 'done'\n{STAR}\
                 [[traffic]]\nkind = 'collective'\nop = 'ring-all-reduce'\nsize = '32MB'\n\
                 iterations = 3\n"
            ),
        ),
        (
            "late messages",
            format!("duration = '100ms'\n{STAR}{poisson}load = 0.6\nstart = '85ms'\n"),
        ),
        ("late flows", format!("duration = '90ms'\n{flows}{STAR}")),
        (
            "closed loop",
            format!(
                "duration = '30ms'\n{STAR}[[traffic]]\nkind = 'closed-loop'\nrequest = '1KB'\n\
                 reply = '10KB'\n"
            ),
        ),
        (
            "pauses",
            format!(
                "duration = '24ms'\n{LEAF_SPINE}switch = {{ buffer = '1MB', pfc = {{}} }}\n\
                 transport = {{ protocol = 'dcqcn' }}\n{poisson}load = 0.5\n{incast}"
            ),
        ),
        (
            "after much idle time",
            format!(
                "duration = '100s'\n{STAR}\
                 flows = [{{ src = 'h0', dst = 'h1', start = '99s', stop = '99.02s' }}]\n"
            ),
        ),
        (
            "messages far below a packet",
            "duration = '8ms'\nfabric = { kind = 'star', hosts = 16 }\n\
                 transport = { protocol = 'dctcp' }\n\
                 [[traffic]]\nkind = 'poisson'\nsizes = '256B'\nload = 0.4\n"
                .to_owned(),
        ),
        (
            "late overload",
            format!(
                "duration = '100ms'\nfabric = {{ kind = 'star', hosts = 16 }}\n\
                 transport = {{ protocol = 'swift' }}\n{poisson}load = 0.2\n\
                 [[traffic]]\nkind = 'incast'\nfan_in = 15\nsizes = '1MB'\n\
                 interval = '20us'\nstart = '85ms'\n"
            ),
        ),
    ]
}

#[test]
fn forecasts_are_within_a_factor_of_two() {
    let scenarios = scenarios();
    // A trial run measures the processor time of its own thread, so two may run at once.
    let ratios = in_parallel(scenarios.len(), 2, |i, _| {
        let (name, text) = &scenarios[i];
        let plan = load(Source::Text(text.clone()), &[])?;
        let options = RunOptions { threads: Some(1), ..RunOptions::default() };
        let forecast = forecast_runs(std::slice::from_ref(&plan), &options)?;
        let hops = run(&plan, &options)?.engine.packet_hops as f64;
        println!("{name}: {} M forecast, {} M counted", forecast.packet_hops / 1e6, hops / 1e6);
        Ok((*name, forecast.packet_hops / hops))
    });
    let mut wrong: Vec<_> = ratios.into_iter().map(Result::unwrap).collect();
    wrong.retain(|(_, ratio)| !(0.5..2.0).contains(ratio));
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn captures_of_late_traffic_have_a_forecast() {
    let [_, _, _, (_, text), ..] = scenarios();
    let plan = load(Source::Text(text), &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h0.pcapng");
    let capture = Some(Capture { file: &file, of: &["h0".to_owned()] });
    let options = RunOptions { threads: Some(1), capture, ..RunOptions::default() };
    let forecast = forecast_capture(&plan, &options).unwrap();
    run(&plan, &options).unwrap();
    let size = file.metadata().unwrap().len() as f64;
    assert!((0.5..2.0).contains(&(forecast / size)), "{forecast} forecast, {size} written");
}
