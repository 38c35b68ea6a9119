//! The sockets of a switch, one that stands for each host: datagrams in and out.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::{IpRecvTos, RcvBuf, ReceiveTimestampns, RxqOvfl};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
};
use nix::sys::time::TimeSpec;

use crate::datagram::Datagram;
use crate::slots::Way;
use crate::{Config, Path};

/// Room that is asked for in each socket; the kernel may give less.
const BUFFER_BYTES: usize = 4 << 20;
/// Datagrams that are taken from one socket before others have their turn.
const TURN: usize = 64;
/// Sockets that are looked at in one go.
const READY: usize = 64;
/// The longest payload of UDP.
const MOST_BYTES: usize = 65_535;

/// A real host, and which of the fabric's it is.
#[derive(Clone, Copy)]
struct Host {
    place: u32,
    address: SocketAddrV4,
}

struct Socket {
    socket: UdpSocket,
    /// Datagrams that found its buffer full, so far.
    overrun: u32,
}

/// A datagram that has come in.
pub(crate) struct Received<'a> {
    /// Where it goes; none where it is from no host, or from one of the same place.
    pub(crate) way: Option<Way>,
    pub(crate) tos: u8,
    /// When the kernel had it, by the clock that people set.
    pub(crate) stamp: Duration,
    pub(crate) payload: &'a [u8],
}

pub(crate) struct Sockets {
    hosts: Vec<Host>,
    /// By address, the number of the host that is there.
    numbers: BTreeMap<SocketAddrV4, u32>,
    /// By host, the one that stands for it: others send there what is for it, and what it receives
    /// from them comes from theirs.
    sockets: Vec<Socket>,
    epoll: Epoll,
    scratch: Vec<u8>,
    control: Vec<u8>,
}

impl Sockets {
    /// # Errors
    /// Where an address cannot be listened at, or the kernel lacks what is asked of it; the message
    /// says which.
    pub(crate) fn open(config: &Config) -> io::Result<Sockets> {
        let there = |(place, of): (u32, &Vec<SocketAddrV4>)| {
            of.iter().map(move |&address| Host { place, address }).collect::<Vec<_>>()
        };
        let hosts: Vec<Host> = (0..).zip(&config.hosts).flat_map(there).collect();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut sockets = Vec::new();
        for number in 0..hosts.len() {
            let at = address(config.listen, number)?;
            let socket = listen(at).map_err(|why| {
                io::Error::new(why.kind(), format!("cannot listen at {at}: {why}"))
            })?;
            epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
            sockets.push(Socket { socket, overrun: 0 });
        }
        let numbers = (0..).zip(&hosts).map(|(number, host)| (host.address, number)).collect();
        let (scratch, control) = (vec![0; MOST_BYTES], cmsg_space!(u8, TimeSpec, u32));
        Ok(Sockets { hosts, numbers, sockets, epoll, scratch, control })
    }

    /// Where hosts send to, by who sends and then for whom.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let at = |socket: &Socket| match socket.socket.local_addr() {
            Ok(SocketAddr::V4(at)) => Some(at),
            _ => None,
        };
        let stand: Vec<_> = self.hosts.iter().zip(self.sockets.iter().map(at)).collect();
        let paths = self.hosts.iter().flat_map(|from| {
            let others = stand.iter().filter(move |(to, _)| to.place != from.place);
            others.filter_map(move |(to, at)| {
                at.map(|at| Path { from: from.address, to: to.address, at })
            })
        });
        paths.collect()
    }

    fn ends(&self, path: u32) -> [Host; 2] {
        let hosts = self.hosts.len();
        [self.hosts[path as usize / hosts], self.hosts[path as usize % hosts]]
    }

    /// Waits for something to come in, for at most so long.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from(most)), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    /// Takes what has come in; whether some may be left.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        let mut events = [EpollEvent::empty(); READY];
        let ready = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(why) => return Err(why.into()),
        };
        let mut more = ready == READY;
        for event in &events[..ready] {
            more |= self.receive_from(event.data() as u32, &mut each)?;
        }
        Ok(more)
    }

    fn receive_from(&mut self, to: u32, each: &mut impl FnMut(Received<'_>)) -> io::Result<bool> {
        let Sockets { hosts, numbers, sockets, scratch, control, .. } = self;
        let Socket { socket, overrun } = &mut sockets[to as usize];
        for _ in 0..TURN {
            let mut slices = [IoSliceMut::new(scratch)];
            let message = match recvmsg::<SockaddrIn>(
                socket.as_raw_fd(),
                &mut slices,
                Some(&mut *control),
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(false),
                // A host that is not there, told of by ICMP, or a signal.
                Err(Errno::ECONNREFUSED | Errno::EINTR) => continue,
                Err(why) => return Err(why.into()),
            };
            let (mut tos, mut stamp) = (0, Duration::MAX);
            for control in message.cmsgs()? {
                match control {
                    ControlMessageOwned::Ipv4Tos(of) => tos = of,
                    ControlMessageOwned::ScmTimestampns(at) => stamp = at.into(),
                    ControlMessageOwned::RxqOvfl(lost) => *overrun = lost,
                    _ => {}
                }
            }
            let from = message.address.and_then(|from| numbers.get(&SocketAddrV4::from(from)));
            let place = |host: u32| hosts[host as usize].place;
            let way = from.filter(|&&from| place(from) != place(to)).map(|&from| Way {
                path: from * hosts.len() as u32 + to,
                from: place(from),
                to: place(to),
            });
            let bytes = message.bytes;
            each(Received { way, tos, stamp, payload: &scratch[..bytes] });
        }
        Ok(true)
    }

    /// Hands a datagram to the kernel, for the host that its path leads to.
    pub(crate) fn send(&self, path: u32, datagram: &Datagram) -> io::Result<()> {
        let Socket { socket, .. } = &self.sockets[path as usize / self.hosts.len()];
        let to = SockaddrIn::from(self.ends(path)[1].address);
        let slices = datagram.payload().map(IoSlice::new);
        let tos = datagram.tos();
        let control = [ControlMessage::Ipv4Tos(&tos)];
        sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }

    /// Datagrams that found the buffer of their socket full, as far as is known: the kernel tells
    /// with the next one that it hands over.
    pub(crate) fn overrun(&self) -> u64 {
        self.sockets.iter().map(|socket| u64::from(socket.overrun)).sum()
    }
}

/// The address so many ports above the first.
fn address(listen: SocketAddrV4, number: usize) -> io::Result<SocketAddrV4> {
    let (ip, first): (Ipv4Addr, u16) = (*listen.ip(), listen.port());
    if first == 0 {
        return Ok(listen);
    }
    let port = u16::try_from(number).ok().and_then(|number| first.checked_add(number));
    let why = || format!("no UDP port is {number} above {first}");
    port.map(|port| SocketAddrV4::new(ip, port))
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, why()))
}

fn listen(at: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, IpRecvTos, &true)?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    setsockopt(&socket, RxqOvfl, &1)?;
    setsockopt(&socket, RcvBuf, &BUFFER_BYTES)?;
    Ok(socket)
}
