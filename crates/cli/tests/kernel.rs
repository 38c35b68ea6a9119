//! `tidegate kernel`. As root on a kernel with BPF it loads and unloads; elsewhere it reports what
//! is missing.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Answer, Place, tidegate};

const PINS: &str = "/sys/fs/bpf/tidegate-dev-cli";
/// The place of `testbed --tcp`.
const USUAL_PINS: &str = "/sys/fs/bpf/tidegate";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Names of controls are global: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The right to load controls; `None` if that is impossible here.
fn right(pins: &str) -> Option<MutexGuard<'static, ()>> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (unmet, taken) = (unmet(pins), registered("tg_"));
    if !taken && unmet.is_empty() {
        return Some(one);
    }
    assert!(std::env::var_os("TIDEGATE_KERNEL").is_none(), "{taken} {unmet:?}");
    eprintln!("SKIPPED: controls cannot be loaded here: loaded: {taken}, unmet: {unmet:?}");
    None
}

fn registered(name: &str) -> bool {
    std::fs::read_to_string(AVAILABLE).unwrap().contains(name)
}

fn kernel(arguments: &[&str], pins: &str) -> Output {
    let mut command = tidegate(&["kernel"]);
    command.args(arguments).args(["--pins", pins]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn status(pins: &str) -> Value {
    let output = kernel(&["status", "--json"], pins);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Requirements that this machine does not meet.
fn unmet(pins: &str) -> Vec<String> {
    let checks = status(pins)["requirements"].as_array().unwrap().clone();
    let unmet = checks.iter().filter(|check| check["met"] == false);
    unmet.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn wrong_arguments_name_option_and_allowed_values() {
    for (arguments, expected) in [
        (&["load", "reno"][..], "NAME: found reno, expected \"poseidon\", \"powertcp\", \"swift\""),
        (&["unload", "tg_poseidon"], "(did you mean \"poseidon\"?)"),
        (&["load", "swift", "--param", "beta=9"], "beta"),
        (&["load", "swift", "--rate", "9"], "--rate"),
        (&["load", "swift", "--base-rtt", "soon"], "--base-rtt: found soon, expected a duration"),
        (
            &["load", "swift", "--base-rtt", "0us"],
            "--base-rtt: found 0us, expected a duration from 1us to 1s",
        ),
        (
            &["load", "poseidon", "--param", "update=aimd"],
            "--param: update: the kernel's law supports only exponential",
        ),
        (
            &["load", "powertcp", "--rate", "100Mbps", "--base-rtt", "4ms"],
            "--param: min_rate: found 100Mbps, but the smallest window",
        ),
        (
            &["load", "theta-powertcp", "--rate", "50Mbps", "--base-rtt", "20ms"],
            "; for --rate 50Mbps and --base-rtt 20ms use: --param beta=3076B --param \
             min_rate=500kbps --param max_window=2BDP",
        ),
        (
            &["load", "poseidon", "--param", "min_rto=1ms"],
            "--param: min_rto: this value does not change the law of poseidon",
        ),
        (
            &["load", "poseidon", "--param", "k=1us", "--param", "k=2us"],
            "--param: k: given twice; give it once",
        ),
        (&["load", "poseidon", "--hops", "2"], "--hops: the law of tg_poseidon does not use it"),
        (&["load", "swift", "--hops", "65"], "65 is not in 1..=64"),
    ] {
        let output = kernel(arguments, PINS);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn missing_requirements_are_named_with_remedies() {
    // No BPF file system is mounted there.
    let output = kernel(&["load", "swift"], "/tmp/tidegate-pins");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("BPF file system: no BPF file system is mounted above"), "{error}");
    assert!(error.contains("mount -t bpf bpf /sys/fs/bpf"), "{error}");
    let output = kernel(&["status"], "/tmp/tidegate-pins");
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("BPF file system      NO"), "{table}");
    let output = kernel(&["unload", "swift"], "/tmp/tidegate-pins");
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.contains("BPF file system: no BPF file system is mounted above"), "{error}");
}

#[test]
fn controls_are_loaded_shown_and_unloaded() {
    let Some(_one) = right(PINS) else { return };
    let load = ["load", "poseidon", "--rate", "25Gbps", "--base-rtt", "20us"];
    let done = ["loaded", "was loaded; its parameters are replaced"];
    for done in done {
        let output = kernel(&load, PINS);
        let (expected, error) = (
            format!("tg_poseidon {done}, for 25Gbps and a base RTT of 20us\n"),
            text(&output.stderr),
        );
        assert_eq!(text(&output.stdout), expected, "{error}");
        assert!(
            error.starts_with("a port of 25Gbps keeps a queue of ")
                && error.contains("; the base RTT of 20.00 us is above 0.75 p/(A m)")
                && error.contains("for --rate 25Gbps and --base-rtt 20us use: --param m=0.1 "),
            "{error}"
        );
    }
    let status = status(PINS);
    assert_eq!(status["controls"][0]["name"], "tg_poseidon");
    assert_eq!(status["controls"][0]["counters"]["acks"], 0);
    let parameters = &status["controls"][0]["parameters"];
    assert_eq!(parameters["max_mi"], json!({ "value": 2.5, "unit": "" }));
    assert_eq!(parameters["initial"], json!({ "value": 62_500.0, "unit": "bytes" }));
    assert_eq!(parameters["rate"], json!({ "value": 25e9, "unit": "bit/s" }));
    assert_eq!(parameters["base_rtt"], json!({ "value": 20_000.0, "unit": "ns" }));
    assert_eq!(text(&kernel(&["unload", "swift"], PINS).stdout), "tg_swift is not loaded\n");
    let output = kernel(&["stamp", "nowhere0", "--peer", "nowhere1"], PINS);
    let error = text(&output.stderr);
    assert!(
        error.starts_with("tidegate: there is no interface nowhere0; --netns names"),
        "{error}"
    );
    // A folder of another program does not hide the control, nor keep it loaded.
    let folder = std::path::Path::new(PINS).join("tg_swift");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(self::status(PINS)["controls"][0]["name"], "tg_poseidon");
    let expected = "tg_swift: the pin params is missing; remove this folder";
    for arguments in [&["load", "swift"][..], &["unload", "swift"]] {
        let output = kernel(arguments, PINS);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(expected), "{error}");
    }
    let output = kernel(&["unload"], PINS);
    let error = text(&output.stderr);
    assert!(error.contains(expected), "{error}");
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(1), "tg_poseidon unloaded\n")
    );
    std::fs::remove_dir(&folder).unwrap();
    kernel(&load, PINS);
    assert_eq!(text(&kernel(&["unload"], PINS).stdout), "tg_poseidon unloaded\n");
    assert_eq!(text(&kernel(&["unload"], PINS).stdout), "nothing is loaded\n");
    assert!(!registered("tg_poseidon"));
    std::fs::remove_dir(PINS).unwrap();
}

/// Runs a script with namespaces of mounts and interfaces of its own. `$T` is the program, `$P` a
/// place of pins in a file system that the script mounts at `$M`.
fn isolated(script: &str) -> Output {
    let place = Place::usual();
    let setup = "M=$PWD/bpf && P=$M/tidegate-test && mkdir $M && ";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-ec", &[setup, script].concat()]);
    command.current_dir(place.path("")).env("T", env!("CARGO_BIN_EXE_tidegate")).output().unwrap()
}

#[test]
fn read_only_file_system_of_pins_is_named() {
    let Some(_one) = right(PINS) else { return };
    let output = isolated("mount -t bpf -o ro bpf $M; $T kernel status --pins $P");
    let table = text(&output.stdout);
    assert!(table.contains("BPF file system      NO   mounted read-only above"), "{table}");
    assert!(table.contains("make it writable: mount -o remount,rw "), "{table}");
}

#[test]
fn loading_needs_no_sys_admin() {
    let Some(_one) = right(PINS) else { return };
    let output = isolated(
        "mount -t bpf bpf $M; without='setpriv --bounding-set -sys_admin'; \
         $without $T kernel load swift --pins $P && $without $T kernel status --pins $P; \
         $without $T kernel unload --pins $P",
    );
    let (shown, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert!(shown.contains("tg_swift loaded") && shown.contains("tg_swift unloaded"), "{shown}");
}

#[test]
fn stamping_needs_no_cgroup2() {
    let Some(_one) = right(PINS) else { return };
    let output = isolated(
        "mount -t bpf bpf $M; umount -l /sys/fs/cgroup; \
         ip link add q0 type veth peer name q1; ip link set q0 up; ip link set q1 up; \
         tc qdisc add dev q0 root tbf rate 90mbit burst 16kb limit 600000; \
         $T kernel stamp q0 --pins $P; $T kernel status --pins $P; $T kernel unload --pins $P",
    );
    let (shown, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{error}");
    assert!(shown.contains("q0 is stamped, with hop records for 90Mbps"), "{shown}");
    assert!(shown.contains("cgroup2              NO   not mounted"), "{shown}");
}

/// A scenario for the kernel's TCP.
fn scenario(protocol: &str, duration: &str) -> Place {
    let place = Place::usual();
    let text = format!(
        "name = 'tcp'\nduration = '{duration}'\ndrain = '5s'\n\
         [fabric]\nkind = 'star'\nhosts = 2\nmtu = '1500B'\n\
         host_link = {{ rate = '50Mbps', delay = '1ms' }}\n\
         [switch]\nbuffer = '1MB'\n[transport]\nprotocol = '{protocol}'\n\
         [[flows]]\nsrc = 'h1'\ndst = 'h0'\nsize = '1MB'\n"
    );
    std::fs::write(place.path("scenario.toml"), text).unwrap();
    place
}

fn over_tcp(place: &Place, control: &str) -> Answer {
    place.call("testbed", &["--tcp", control, "--json", "-q"])
}

#[test]
fn testbeds_load_controls_for_a_run() {
    let Some(_one) = right(USUAL_PINS) else { return };
    let wrong = over_tcp(&scenario("swift", "200ms"), "tg_poseidon");
    wrong.refused(2, &["transport.protocol: found \"swift\", but tg_poseidon takes"]);
    let place = scenario("poseidon", "200ms");
    let acks = over_tcp(&place, "tg_poseidon").json()["real"]["tcp_acks"].clone();
    let count = |key: &str| acks[key].as_u64().unwrap();
    assert!(count("with_telemetry") > 10 * count("without_telemetry"), "{acks}");
    assert!(!registered("tg_"), "the run has not unloaded it");
    // Parameters of others are not replaced.
    assert!(kernel(&["load", "poseidon"], USUAL_PINS).status.success());
    over_tcp(&place, "tg_poseidon").refused(1, &["tg_poseidon is loaded already"]);
    assert!(registered("tg_poseidon"));
    assert!(kernel(&["unload"], USUAL_PINS).status.success());
}

#[test]
fn runs_whose_parameters_were_replaced_are_refused() {
    let Some(_one) = right(USUAL_PINS) else { return };
    let place = scenario("poseidon", "2s");
    let mut run = tidegate(&["testbed", "--tcp", "tg_poseidon", "-q", &place.arg("scenario.toml")]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !std::path::Path::new(USUAL_PINS).join("tg_poseidon").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(kernel(&["load", "poseidon", "--param", "k=9us"], USUAL_PINS).status.success());
    let output = run.wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("of tg_poseidon were replaced during the run"), "{error}");
    assert!(!registered("tg_"), "the run has not unloaded it");
}
