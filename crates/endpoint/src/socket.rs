//! A UDP socket that reports ECN marks and arrival times, and sends and receives datagrams in
//! batches.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use nix::time::{ClockId, clock_gettime};

/// Size of the buffer for control messages. A time stamp, a type of service and a segment length
/// take at least 24 bytes each; if the buffer is too small, the kernel omits the last ones.
const CONTROL_BYTES: usize = 256;
/// Largest number of segments, and of bytes, that the kernel accepts in one call.
pub(crate) const MOST_SEGMENTS: usize = 64;
pub(crate) const MOST_BYTES: usize = 65_000;
/// Maximum age of a valid time stamp. If a stamp is older, the system clock was set meanwhile.
const OLDEST: Duration = Duration::from_secs(1);

#[allow(unsafe_code)]
mod options {
    use nix::{libc, setsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// Path MTU discovery. The value 3 means: never fragment, and ignore what ICMP reports
        /// about the path.
        MtuDiscover, SetOnly, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, i32
    );
    sockopt_impl!(
        /// The same for IPv6.
        MtuDiscover6, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, i32
    );
    sockopt_impl!(
        /// Time in microseconds to poll the device before sleeping.
        BusyPoll, SetOnly, libc::SOL_SOCKET, libc::SO_BUSY_POLL, i32
    );
}

/// Performance options of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// The kernel or the device divides a buffer into datagrams (GSO).
    pub segment: bool,
    /// The kernel delivers consecutive datagrams in one buffer (GRO).
    pub coalesce: bool,
    /// Size of the kernel's buffer in each direction, in bytes.
    pub buffer_bytes: usize,
    /// Time for which the thread polls socket and device after its last work before it sleeps. It
    /// trades a core for shorter round trips.
    pub busy_poll: Duration,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            segment: true,
            coalesce: true,
            buffer_bytes: 4 << 20,
            busy_poll: Duration::ZERO,
        }
    }
}

/// Datagrams that were received together: all but the last have length `segment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Source address.
    pub from: SocketAddr,
    /// Type of service.
    pub tos: u8,
    /// Time since the kernel received the first of them; zero if the clock may have been set since.
    pub held: Duration,
    /// The same, without the check for a changed clock.
    pub waited: Duration,
    /// Their total length.
    pub bytes: usize,
    /// Length of each datagram but the last.
    pub segment: usize,
}

/// A UDP socket.
pub struct Socket {
    udp: UdpSocket,
    is_v6: bool,
    segments: bool,
    busy_poll: Duration,
    overrun: u32,
    control: Box<[u8]>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

impl Socket {
    /// Binds a socket to an address.
    ///
    /// # Errors
    /// If the system refuses the address.
    pub fn bind(address: SocketAddr, options: SocketOptions) -> io::Result<Socket> {
        let udp = UdpSocket::bind(address)?;
        udp.set_nonblocking(true)?;
        let is_v6 = address.is_ipv6();
        setsockopt(&udp, sockopt::ReceiveTimestampns, &true)?;
        if is_v6 {
            setsockopt(&udp, sockopt::Ipv6RecvTClass, &true)?;
            setsockopt(&udp, options::MtuDiscover6, &3)?;
        } else {
            setsockopt(&udp, sockopt::IpRecvTos, &true)?;
            setsockopt(&udp, options::MtuDiscover, &3)?;
        }
        setsockopt(&udp, sockopt::RxqOvfl, &1)?;
        // These options are for performance only; failures are ignored.
        let _ = setsockopt(&udp, sockopt::RcvBuf, &options.buffer_bytes);
        let _ = setsockopt(&udp, sockopt::SndBuf, &options.buffer_bytes);
        let coalesces =
            !options.coalesce || setsockopt(&udp, sockopt::UdpGroSegment, &true).is_ok();
        let segments = options.segment && coalesces;
        if options.busy_poll > Duration::ZERO {
            let us = options.busy_poll.as_micros().min(i32::MAX as u128) as i32;
            let _ = setsockopt(&udp, options::BusyPoll, &us);
        }
        let control = vec![0; CONTROL_BYTES].into();
        Ok(Socket { udp, is_v6, segments, busy_poll: options.busy_poll, overrun: 0, control })
    }

    /// The local address.
    ///
    /// # Errors If the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Whether the socket sends several datagrams in one call.
    pub fn segments(&self) -> bool {
        self.segments
    }

    /// Time for which the thread polls the socket before it sleeps.
    pub fn busy_poll(&self) -> Duration {
        self.busy_poll
    }

    /// Number of datagrams that the kernel dropped because the buffer was full, as of the last
    /// receive.
    pub fn overrun(&self) -> u32 {
        self.overrun
    }

    /// Receives datagrams into `buffer`, if there are any. 64 KiB are always enough.
    ///
    /// # Errors
    /// If the system reports an error other than that the call would block.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let fd = self.udp.as_raw_fd();
        let mut parts = [IoSliceMut::new(buffer)];
        let control = Some(&mut self.control[..]);
        let got = recvmsg::<SockaddrStorage>(fd, &mut parts, control, MsgFlags::empty());
        let got = match got {
            Ok(got) => got,
            // ECONNREFUSED: an earlier datagram was not received, which does not matter here.
            Err(nix::Error::EAGAIN | nix::Error::ECONNREFUSED | nix::Error::EINTR) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(from) = got.address.as_ref().and_then(address_of) else { return Ok(None) };
        let (mut tos, mut segment, mut waited) = (0, got.bytes, Duration::ZERO);
        for message in got.cmsgs()? {
            match message {
                ControlMessageOwned::Ipv4Tos(value) => tos = value,
                ControlMessageOwned::Ipv6TClass(value) => tos = value as u8,
                ControlMessageOwned::RxqOvfl(lost) => self.overrun = lost,
                ControlMessageOwned::UdpGroSegments(bytes) if bytes > 0 => segment = bytes as usize,
                ControlMessageOwned::ScmTimestampns(at) => {
                    let at = Duration::from(at);
                    let now = clock_gettime(ClockId::CLOCK_REALTIME).map(Duration::from);
                    waited = now.unwrap_or(at).saturating_sub(at);
                }
                _ => {}
            }
        }
        let held = if waited <= OLDEST { waited } else { Duration::ZERO };
        let segment = segment.max(1);
        Ok(Some(Received { from, tos, held, waited, bytes: got.bytes, segment }))
    }

    /// Sends `bytes` in datagrams of `segment` bytes; the last may be shorter. Returns whether the
    /// system had room.
    ///
    /// # Errors
    /// If the system reports an error other than that the call would block.
    pub fn send(
        &mut self,
        to: SocketAddr,
        tos: u8,
        segment: usize,
        bytes: &[u8],
    ) -> io::Result<bool> {
        let class = i32::from(tos);
        let tos = match self.is_v6 {
            true => ControlMessage::Ipv6TClass(&class),
            false => ControlMessage::Ipv4Tos(&tos),
        };
        let length = segment.min(usize::from(u16::MAX)) as u16;
        let messages = [tos, ControlMessage::UdpGsoSegments(&length)];
        let messages = &messages[..if bytes.len() > segment { 2 } else { 1 }];
        let parts = [IoSlice::new(bytes)];
        let fd = self.udp.as_raw_fd();
        let flags = MsgFlags::empty();
        match sendmsg(fd, &parts, messages, flags, Some(&SockaddrStorage::from(to))) {
            Ok(_) => Ok(true),
            Err(nix::Error::EAGAIN | nix::Error::ENOBUFS | nix::Error::EINTR) => Ok(false),
            // The device does not support segmentation: send one by one from now on.
            Err(nix::Error::EIO | nix::Error::EINVAL) if bytes.len() > segment => {
                self.segments = false;
                for datagram in bytes.chunks(segment) {
                    self.send_one(to, class as u8, datagram)?;
                }
                Ok(true)
            }
            // Treated as loss on the path: no receiver, no route, an address that cannot be reached
            // from this socket, or a datagram that is too long.
            Err(
                nix::Error::ECONNREFUSED
                | nix::Error::EHOSTUNREACH
                | nix::Error::ENETUNREACH
                | nix::Error::ENETDOWN
                | nix::Error::EADDRNOTAVAIL
                | nix::Error::EAFNOSUPPORT
                | nix::Error::EACCES
                | nix::Error::EINVAL
                | nix::Error::EMSGSIZE
                | nix::Error::EPERM,
            ) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn send_one(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<bool> {
        self.send(to, tos, datagram.len(), datagram)
    }
}

fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    let v6 = address.as_sockaddr_in6()?;
    Some(SocketAddr::from((v6.ip(), v6.port())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn receive(socket: &mut Socket, buffer: &mut [u8]) -> Received {
        poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::from(2_000u16))
            .unwrap();
        socket.receive(buffer).unwrap().expect("a datagram")
    }

    /// Marks, stamps and segments arrive together: a buffer that is too small for all control
    /// messages would lose one.
    #[test]
    fn marks_and_stamps_arrive_with_segments() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let bind = || Socket::bind(host.parse().unwrap(), SocketOptions::default());
            let (Ok(mut from), Ok(mut to)) = (bind(), bind()) else {
                println!("SKIPPED: no {host} here");
                continue;
            };
            // The kernel enables time stamps with a short delay.
            std::thread::sleep(Duration::from_millis(50));
            let sent: Vec<u8> = (0..3_500u32).map(|byte| byte as u8).collect();
            let address = to.address().unwrap();
            assert!(from.send(address, 0xb9, 1_000, &sent).unwrap());
            std::thread::sleep(Duration::from_millis(150));
            let (mut buffer, mut all) = (vec![0; 1 << 16], Vec::new());
            while all.len() < sent.len() {
                let got = receive(&mut to, &mut buffer);
                assert_eq!((got.from, got.tos), (from.address().unwrap(), 0xb9));
                assert!(got.segment == 1_000 || got.bytes == 500, "{got:?}");
                let held = got.held.as_millis();
                assert!((145..1_000).contains(&held), "{held} ms");
                all.extend_from_slice(&buffer[..got.bytes]);
            }
            assert_eq!(all, sent);
            assert_eq!(to.receive(&mut buffer).unwrap(), None);
        }
    }

    #[test]
    fn overrun_counts_lost_datagrams() {
        let options = SocketOptions { buffer_bytes: 8 << 10, ..SocketOptions::default() };
        let bind = || Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let (mut from, mut to) = (bind(), bind());
        let (address, mut buffer) = (to.address().unwrap(), vec![0; 1 << 16]);
        let (mut sent, mut taken) = (0, 0);
        for datagrams in [100, 1] {
            for _ in 0..datagrams {
                assert!(from.send(address, 0, 1_000, &[7; 1_000]).unwrap());
                sent += 1;
            }
            while let Some(got) = to.receive(&mut buffer).unwrap() {
                taken += got.bytes as u32 / 1_000;
            }
        }
        assert!(taken < sent, "the small buffer held all datagrams");
        // The last datagram was received after the loss and reports it.
        assert_eq!(to.overrun(), sent - taken);
    }

    #[test]
    fn datagrams_without_offloads() {
        let options = SocketOptions { segment: false, coalesce: false, ..SocketOptions::default() };
        let bind = || Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let (mut from, mut to) = (bind(), bind());
        assert!(!from.segments());
        let mut buffer = vec![0; 1 << 16];
        for (tos, bytes) in [(0, 10), (1, 1_400), (3, 1)] {
            assert!(from.send(to.address().unwrap(), tos, bytes, &vec![7; bytes]).unwrap());
            let got = receive(&mut to, &mut buffer);
            assert_eq!((got.tos, got.bytes, got.segment), (tos, bytes, bytes));
        }
    }
}
