//! Replays the recording of a run as a trace.

use tidegate_runs::{RunOptions, load, protocols, run};

#[test]
fn a_run_replays_the_flows_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let head = format!(
        "duration = '2ms'\nfabric = {{ kind = 'star', hosts = 6 }}\ntransport = {{ protocol = '{}' \
         }}\n",
        protocols()[0].name
    );
    let first = dir.path().join("first.toml");
    let traffic = "[[traffic]]\nkind = 'poisson'\nsizes = '20KB'\nload = 0.3\nstop = '1ms'\n";
    std::fs::write(&first, format!("{head}{traffic}")).unwrap();
    let out = dir.path().join("out");
    let options = RunOptions { out: Some(&out), ..RunOptions::default() };
    let recorded = run(&load(&first, &[]).unwrap(), &options).unwrap();
    assert!(recorded.fct["all"].count > 200, "{}", recorded.fct["all"].count);

    let second = dir.path().join("second.toml");
    std::fs::write(
        &second,
        format!("{head}[[traffic]]\nkind = 'trace'\nfile = 'out/flows.parquet'\n"),
    )
    .unwrap();
    let replayed = run(&load(&second, &[]).unwrap(), &RunOptions::default()).unwrap();
    assert_eq!(replayed.fct["all"].count, recorded.fct["all"].count);
    assert_eq!(replayed.fct["all"].mean_us, recorded.fct["all"].mean_us);

    // A file that is not Parquet gives an error that names it.
    std::fs::write(out.join("flows.parquet"), "start_us,src,dst,size_bytes").unwrap();
    let error = load(&second, &[]).unwrap_err().to_string();
    assert!(
        error.contains("flows.parquet") && error.contains("a readable Parquet file"),
        "{error}"
    );
}
