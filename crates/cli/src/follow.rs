//! `tidegate report --serve`: the page of a folder over HTTP, while its runs go on.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tidegate_workbench::{self as workbench, Error};

use crate::interrupt::interrupt_flag;
use crate::{Result, emit};

/// Time between two checks for requests and signals.
const POLL: Duration = Duration::from_millis(50);
/// Longest wait for the rest of a request, and for the receiver of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest accepted line of a request.
const LINE_MAX: u64 = 8192;

/// Parses the address of the server.
pub(crate) fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let expected = "expected an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080";
    text.parse().map_err(|_| expected.to_owned())
}

/// Serves the page of `folders` until a signal ends the server.
pub(crate) fn serve(address: SocketAddr, folders: &[PathBuf]) -> Result<String> {
    let unusable = |why: io::Error| {
        let message = format!("{address}: {why}: choose another address or port");
        Error::Usage { option: "--serve", message }
    };
    let listener = TcpListener::bind(address).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let own = listener.local_addr().map_err(unusable)?;
    emit(&format!("The page is at http://{own}/ until Ctrl-C ends the server\n"));
    while !interrupt_flag().load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let folders = folders.to_vec();
                // A client that disconnects concerns no other one.
                thread::spawn(move || drop(answer(&stream, &folders)));
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => thread::sleep(POLL),
            Err(why) => return Err(Error::Run(format!("--serve: {why}"))),
        }
    }
    Ok(String::new())
}

/// Answers one request.
fn answer(mut stream: &TcpStream, folders: &[PathBuf]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, LINE_MAX)).read_line(&mut line)?;
    let words: Vec<&str> = line.split(' ').collect();
    let (status, kind, body) = match words[..] {
        ["GET" | "HEAD", "/", _] => ("200 OK", "text/html", workbench::live_page(folders)),
        ["GET" | "HEAD", "/live.json", _] => {
            ("200 OK", "application/json", workbench::live_state(folders))
        }
        _ => ("404 Not Found", "text/plain", "only / and /live.json exist\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{}",
        body.len(),
        // The answer to HEAD is that to GET without the body.
        if words[0] == "HEAD" { "" } else { &body }
    )
}
