//! A bare ping-pong: the cost of sockets and wake-ups, without a transport.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Instant;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::system::{ANSWER, BUSY_POLL, Done, Load, System};

/// Datagrams without retransmission, on a link without loss.
pub(crate) struct Udp {
    /// Whether it polls the socket before it sleeps.
    pub(crate) busy: bool,
}

impl Udp {
    fn socket(at: SocketAddr) -> Result<UdpSocket> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Waits for a datagram as the endpoint does: it tries to receive, and sleeps if there is none.
    fn receive(&self, socket: &UdpSocket, buffer: &mut [u8]) -> Result<(usize, SocketAddr)> {
        let since = Instant::now();
        loop {
            match socket.recv_from(buffer) {
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                got => return Ok(got?),
            }
            if !self.busy || since.elapsed() > BUSY_POLL {
                let mut readable = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                poll(&mut readable, PollTimeout::NONE)?;
            }
        }
    }
}

impl System for Udp {
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()> {
        let socket = Udp::socket(at)?;
        ready("");
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (_, from) = self.receive(&socket, &mut buffer)?;
            socket.send_to(ANSWER, from)?;
        }
    }

    fn send(&self, to: SocketAddr, _word: &str, load: Load, done: &Done<'_>) -> Result<()> {
        let socket = Udp::socket(SocketAddr::from(([0, 0, 0, 0], 0)))?;
        let (message, mut buffer) = (vec![7; load.bytes], vec![0; 1 << 16]);
        loop {
            let since = Instant::now();
            socket.send_to(&message, to)?;
            self.receive(&socket, &mut buffer)?;
            if !done(since.elapsed()) {
                return Ok(());
            }
        }
    }
}
