//! A headless Chromium, driven over a pipe. Messages of the DevTools protocol are JSON with a final
//! zero byte, so no library is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Chromium reads from descriptor 3 and writes to 4; the shell creates them from stdin and stdout.
const LAUNCH: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Timeout for answers.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser with a single page.
pub(crate) struct Browser {
    child: Child,
    calls: ChildStdin,
    answers: Receiver<Value>,
    last_call: u64,
    session: Option<String>,
    /// Events since the page was opened.
    events: Vec<Value>,
    _profile: TempDir,
}

/// The path of an installed browser that runs, if any.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let in_folder = |folder: PathBuf| NAMES.map(|name| folder.join(name));
    let runs = |program: &PathBuf| {
        let version = Command::new(program).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    std::env::split_paths(&path).flat_map(in_folder).find(runs)
}

impl Browser {
    /// Starts a browser.
    pub(crate) fn start(program: &Path) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", LAUNCH])
            .arg(program)
            // Without the sandbox, it also runs as root; the pages are trusted.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (calls, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(stdout).split(0) {
                let Ok(message) = message else { break };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser {
            child,
            calls,
            answers,
            last_call: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a method and returns its result.
    #[track_caller]
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_call += 1;
        let mut message = json!({ "id": self.last_call, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.calls.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.next(method);
            if message["id"] == self.last_call {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    #[track_caller]
    fn next(&self, waiting_for: &str) -> Value {
        let answer = self.answers.recv_timeout(PATIENCE);
        answer
            .unwrap_or_else(|error| panic!("the browser does not answer to {waiting_for}: {error}"))
    }

    /// Opens a page and waits until it is loaded; with the width of A4 minus margins if `media` is
    /// `print`.
    pub(crate) fn open(&mut self, page: &Path, media: &str, scheme: &str) {
        self.open_at(page, media, scheme, if media == "print" { 688 } else { 1200 });
    }

    /// Opens a page in a window of a given width and waits until it is loaded.
    pub(crate) fn open_at(&mut self, page: &Path, media: &str, scheme: &str, width: u32) {
        // The page before would draw all its plots again for another width or colour scheme.
        self.navigate("about:blank");
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "media": media, "features": features }));
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        self.navigate(&format!("file://{}", page.display()));
    }

    /// Lets pages read and write the clipboard, which needs a focused window.
    pub(crate) fn permit_clipboard(&mut self) {
        let permissions = json!(["clipboardReadWrite", "clipboardSanitizedWrite"]);
        self.call("Browser.grantPermissions", &json!({ "permissions": permissions }));
        self.call("Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
    }

    /// Goes to an address and waits until it is loaded.
    pub(crate) fn navigate(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.navigate");
            self.events.push(event);
        }
    }

    /// Calls a JavaScript function with an argument and returns its result; promises are awaited.
    pub(crate) fn ask(&mut self, function: &str, argument: &str) -> Value {
        let expression = format!("({function})({})", json!(argument));
        let answer = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Clicks with the mouse at a visible position of the page.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for (kind, button) in
            [("mouseMoved", "none"), ("mousePressed", "left"), ("mouseReleased", "left")]
        {
            let at = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &at);
            // A mouse that moves on immediately would not trigger hover.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Prints the page to PDF.
    pub(crate) fn pdf(&mut self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", &json!({ "preferCSSPageSize": true }));
        decoded(answer["data"].as_str().unwrap())
    }

    /// Console messages since the page was opened, and requests beyond the page itself.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut opened = false;
        let complaint = |event: &Value| {
            let params = &event["params"];
            let wrong = match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Network.loadingFailed" => true,
                "Runtime.consoleAPICalled" => {
                    ["error", "warning", "assert"].contains(&params["type"].as_str()?)
                }
                "Log.entryAdded" => {
                    ["error", "warning"].contains(&params["entry"]["level"].as_str()?)
                }
                // The first request is the page.
                "Network.requestWillBeSent" => std::mem::replace(&mut opened, true),
                _ => false,
            };
            wrong.then(|| event.to_string())
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes Base64.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let bytes = |four: &[u8]| {
        let kept = four.iter().take_while(|byte| **byte != b'=').count();
        let bits = four
            .iter()
            .take(kept)
            .enumerate()
            .fold(0, |bits, (i, byte)| bits | digit(*byte) << (18 - 6 * i));
        [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8].into_iter().take(kept.saturating_sub(1))
    };
    text.as_bytes().chunks(4).flat_map(bytes).collect()
}
