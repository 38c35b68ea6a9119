//! TCP sockets under a congestion control.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{GetStruct, SetStruct, TcpCongestion, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockopt, setsockopt,
    socket,
};
use tidegate_runs::Error;

/// Beginning of the names of controls that a loader provides.
pub(super) const CONTROL_PREFIX: &str = "tg_";
/// Port of all hosts.
const PORT: u16 = 5_001;
/// Data that a socket holds unsent: little, because it leaves even after a flow has stopped.
pub(super) const UNSENT_BYTES: usize = 16 << 10;

/// Socket option: unsent data above which a socket is not writable.
#[derive(Clone)]
struct UnsentLimit;
nix::setsockopt_impl!(
    UnsentLimit,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32,
    SetStruct<'_, u32>
);

/// Socket option: state of the connection (`struct tcp_info`).
#[derive(Clone, Copy)]
struct Info;
nix::getsockopt_impl!(Info, libc::IPPROTO_TCP, libc::TCP_INFO, TcpInfo, GetStruct<TcpInfo>);

/// The beginning of the kernel's `struct tcp_info`.
#[derive(Clone, Copy)]
#[repr(C)]
struct TcpInfo {
    _before_unacked: [u32; 6],
    /// Segments in flight.
    unacked: u32,
    _before_notsent: [u32; 29],
    notsent_bytes: u32,
    _before_retrans: [u32; 15],
    bytes_retrans: u64,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendState {
    /// All data is acknowledged.
    pub(super) is_acked: bool,
    resent: u64,
}

impl SendState {
    /// Retransmitted payload.
    pub(super) fn resent_bytes(self) -> u32 {
        u32::try_from(self.resent).unwrap_or(u32::MAX)
    }
}

/// Checks that this process can select a congestion control of the kernel's own, and loads its
/// module if necessary. `loadable` are the controls of this build.
///
/// # Errors
/// If the kernel lacks it or restricts it; also for names with [`CONTROL_PREFIX`], whose parameters
/// would be unknown.
pub(super) fn check(congestion: &str, loadable: Option<Vec<&str>>) -> Result<(), Error> {
    let select = || {
        let socket = tcp()?;
        setsockopt(&socket, TcpCongestion, &OsString::from(congestion))
    };
    if !congestion.starts_with(CONTROL_PREFIX) {
        match select() {
            Ok(()) => return Ok(()),
            Err(Errno::EPERM) => {
                return Err(Error::Alone(format!(
                    "this user may not select the congestion control {congestion:?}: run as root"
                )));
            }
            Err(_) => {}
        }
    }
    let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let list = fs::read_to_string(list).map_err(|why| Error::Run(format!("{list}: {why}")))?;
    let list = list.split_whitespace().filter(|name| !name.starts_with(CONTROL_PREFIX));
    let expected: Vec<_> = list.chain(loadable.iter().flatten().copied()).collect();
    let feature = match loadable {
        Some(_) => "",
        None => {
            "; controls that begin with tg_ need a build with the feature kernel \
                 (docs/kernel.md)"
        }
    };
    Err(Error::Alone(format!(
        "the kernel has no congestion control {congestion:?}; expected one of {}{feature}",
        expected.join(" ")
    )))
}

/// Listens in this thread's namespace, under the congestion control of the senders, because some
/// controls negotiate ECN and the receiver has to agree.
pub(super) fn listen(address: Ipv4Addr, congestion: &str) -> io::Result<TcpListener> {
    let socket = tcp()?;
    setsockopt(&socket, TcpCongestion, &OsString::from(congestion))?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(address, PORT)))?;
    // As many as the kernel permits: all flows of an incast connect at once.
    nix::sys::socket::listen(&socket, Backlog::MAXCONN)?;
    Ok(TcpListener::from(socket))
}

/// Sends a datagram, from which the switch learns the port of this thread's namespace. No socket
/// receives it.
pub(super) fn announce(from: Ipv4Addr, to: Ipv4Addr) -> io::Result<()> {
    UdpSocket::bind((from, 0))?.send_to(&[0], (to, PORT)).map(drop)
}

fn tcp() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Inet, SockType::Stream, flags, None)
}

/// Opens a connection from this thread's namespace.
pub(super) fn open(to: Ipv4Addr, congestion: &str) -> io::Result<TcpStream> {
    let socket = tcp()?;
    setsockopt(&socket, TcpCongestion, &OsString::from(congestion))
        .map_err(|why| io::Error::other(format!("congestion control {congestion}: {why}")))?;
    setsockopt(&socket, TcpNoDelay, &true)?;
    setsockopt(&socket, UnsentLimit, &(UNSENT_BYTES as u32))?;
    match connect(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(to, PORT))) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(why) => Err(why.into()),
    }
}

/// Ends sending. A connection that is not open yet has sent nothing and remains: to shut it down
/// would reset it.
pub(super) fn stop(stream: &TcpStream) -> io::Result<()> {
    match stream.peer_addr() {
        Err(why) if why.kind() == io::ErrorKind::NotConnected => Ok(()),
        _ => stream.shutdown(Shutdown::Write),
    }
}

/// The progress of a connection that sends.
///
/// # Errors
/// If the connection has failed, or left its congestion control.
pub(super) fn send_state(stream: &TcpStream, congestion: &str) -> io::Result<SendState> {
    if let Some(why) = stream.take_error()? {
        return Err(io::Error::new(why.kind(), format!("a connection: {why}")));
    }
    let used = getsockopt(stream, TcpCongestion)?;
    let used = used.to_string_lossy();
    let used = used.trim_end_matches('\0');
    if used != congestion {
        let message = format!("a connection moved from {congestion} to {used} during the run");
        return Err(io::Error::other(message));
    }
    let info = getsockopt(stream, Info)?;
    Ok(SendState {
        is_acked: info.unacked == 0 && info.notsent_bytes == 0,
        resent: info.bytes_retrans,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::mem::offset_of;

    use nix::sys::socket::{getsockname, listen};

    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        assert_eq!(offset_of!(TcpInfo, unacked), 24);
        assert_eq!(offset_of!(TcpInfo, notsent_bytes), 144);
        assert_eq!(offset_of!(TcpInfo, bytes_retrans), 208);
    }

    #[test]
    fn unread_data_is_acknowledged_and_unsent_data_is_not() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        setsockopt(&sender, TcpCongestion, &OsString::from("reno")).unwrap();
        sender.write_all(b"abc").unwrap();
        receiver.read_exact(&mut [0; 3]).unwrap();
        while !send_state(&sender, "reno").unwrap().is_acked {}
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 1 << 16]).is_ok() {}
        assert!(!send_state(&sender, "reno").unwrap().is_acked);
        let message = send_state(&sender, "cubic").unwrap_err().to_string();
        assert!(message.contains("moved from cubic to reno"), "{message}");
    }

    #[test]
    fn connections_stop_before_they_are_open() {
        let listener = tcp().unwrap();
        bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let address: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
        // The listener holds one connection and ignores the others.
        let streams = [(); 3].map(|()| {
            let stream = tcp().unwrap();
            assert_eq!(connect(stream.as_raw_fd(), &address), Err(Errno::EINPROGRESS));
            setsockopt(&stream, TcpCongestion, &OsString::from("reno")).unwrap();
            TcpStream::from(stream)
        });
        assert!(streams[2].peer_addr().is_err());
        for stream in &streams {
            stop(stream).unwrap();
            send_state(stream, "reno").unwrap();
        }
        assert!(!send_state(&streams[2], "reno").unwrap().is_acked);
    }

    #[test]
    fn unknown_control_is_refused() {
        assert!(check("reno", None).is_ok());
        for name in ["no-such-control", "tg_none"] {
            let message = check(name, None).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains("reno"), "{message}");
            assert!(message.contains("the feature kernel"), "{message}");
        }
        let message = check("tg_none", Some(vec!["tg_swift"])).unwrap_err().to_string();
        assert!(message.ends_with(" tg_swift"), "{message}");
    }
}
