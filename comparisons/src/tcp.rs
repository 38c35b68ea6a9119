//! Kernel TCP, unencrypted: the cost of TLS is excluded.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use crate::system::{ANSWER, Done, Load, System};

/// Size of reads and writes.
const BLOCK_BYTES: usize = 256 << 10;

/// A connection under a congestion control of the kernel, which carries messages one after the
/// other.
pub(crate) struct Tcp {
    pub(crate) control: &'static str,
}

impl Tcp {
    fn prepare(&self, stream: &TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let control = self.control.to_owned().into();
        setsockopt(stream, TcpCongestion, &control)
            .with_context(|| format!("this kernel does not provide TCP {}", self.control))
    }
}

impl System for Tcp {
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()> {
        let listener = TcpListener::bind(at)?;
        ready("");
        loop {
            let (stream, _) = listener.accept()?;
            self.prepare(&stream)?;
            thread::spawn(move || answer(stream));
        }
    }

    fn send(&self, to: SocketAddr, _word: &str, load: Load, done: &Done<'_>) -> Result<()> {
        let mut stream = TcpStream::connect(to)?;
        self.prepare(&stream)?;
        stream.write_all(&(load.bytes as u64).to_be_bytes())?;
        let block = vec![7; load.bytes.min(BLOCK_BYTES)];
        let mut since = VecDeque::new();
        loop {
            while since.len() < load.ahead {
                since.push_back(Instant::now());
                for from in (0..load.bytes).step_by(block.len()) {
                    stream.write_all(&block[..block.len().min(load.bytes - from)])?;
                }
            }
            stream.read_exact(&mut [0; ANSWER.len()])?;
            if since.pop_front().is_some_and(|since| !done(since.elapsed())) {
                return Ok(());
            }
        }
    }
}

/// Answers messages until the connection ends. The sender first sends their length.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let (mut block, mut left) = (vec![0; BLOCK_BYTES], length);
    loop {
        let most = left.min(BLOCK_BYTES as u64) as usize;
        match stream.read(&mut block[..most]) {
            Ok(0) => return Ok(()),
            Ok(bytes) => left -= bytes as u64,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        if left == 0 {
            stream.write_all(ANSWER)?;
            left = length;
        }
    }
}
