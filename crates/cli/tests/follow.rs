//! `tidegate report --serve`: pages over HTTP, while a run goes on and after it.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Place, answer, files, tidegate};

/// Asks for the state of a run this often, at most.
const ATTEMPTS: usize = 600;

/// A server that the test ends.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &str) -> Server {
        let mut command = tidegate(&["report", folder, "--serve", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Server { child, address }
    }

    fn get(&self, path: &str) -> String {
        self.ask("GET", path)
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn state(&self) -> Value {
        serde_json::from_str(self.get("/live.json").split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn interrupt(child: &mut Child) -> Option<i32> {
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap().code()
}

#[test]
fn serve_follows_a_run() {
    let place = Place::usual();
    let out = place.arg("out");
    let mut server = Server::start(&out);
    assert!(server.get("/").contains("No run has reported"), "the folder does not exist");
    let args = ["run", &place.arg("scenario.toml"), "--out", &out, "--set", "duration=100s", "-q"];
    let mut run = tidegate(&args).stdout(Stdio::null()).spawn().unwrap();
    let grown = |before: f64| {
        for _ in 0..ATTEMPTS {
            let state = server.state();
            let share = state["runs"][0]["share"].as_f64().unwrap_or(0.0);
            if share > before {
                return state["runs"][0].clone();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the state of the run does not change: {}", server.state());
    };
    let first = grown(0.0);
    let later = grown(first["share"].as_f64().unwrap());
    let points = later["time_ms"].as_array().unwrap().len();
    assert!(points > first["time_ms"].as_array().unwrap().len());
    for values in [&later["goodput_gbps"], &later["queue_kb"], &later["completed_gbps"]["long"]] {
        assert_eq!(values.as_array().unwrap().len(), points, "{later}");
    }
    let gbps = later["goodput_gbps"][points - 1].as_f64().unwrap();
    assert!((50.0..100.0).contains(&gbps), "{gbps} Gbit/s over a link of 100");
    let page = server.get("/");
    assert!(page.contains("id=\"goodput\""));
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(!body.is_empty() && server.ask("HEAD", "/") == format!("{head}\r\n\r\n"));
    assert!(files(Path::new(&out)).contains(&"live.json".to_owned()));
    assert_eq!(interrupt(&mut run), Some(130));
    assert_eq!(files(Path::new(&out)), Vec::<String>::new(), "the run left files");

    place.run(&["--out", &out]).ok();
    assert_eq!(server.state(), serde_json::json!({ "runs": [], "complete": true }));
    assert!(server.get("/").contains("Slowdown of messages"), "the report of the complete run");
    assert!(server.get("/other").starts_with("HTTP/1.1 404"));
    assert_eq!(interrupt(&mut server.child), Some(0));
}

#[test]
fn serve_refuses_addresses() {
    let place = Place::usual();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = ["--serve", &address, "choose another"];
    answer(&["report", &place.arg("out"), "--serve", &address]).refused(2, &words);
    answer(&["report", &place.arg("out"), "--serve", "nowhere"])
        .refused(2, &["--serve", "nowhere", "127.0.0.1:8080"]);
}
