//! Hosts with addresses: the switch has one UDP socket for each of them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::sockopt::IpRecvTos;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, getsockname, sendmsg, setsockopt};

use crate::datagram::{Content, Datagram};
use crate::received::Received;
use crate::slots::Route;
use crate::sockets::{Message, Sockets};
use crate::{Counts, Path};

/// A real host, with its place in the fabric.
#[derive(Clone, Copy)]
struct Host {
    place: u32,
    address: SocketAddrV4,
}

pub(crate) struct Addresses {
    hosts: Vec<Host>,
    /// Number of the host with an address.
    numbers: BTreeMap<SocketAddrV4, u32>,
    /// By host, its socket: others send datagrams for the host to it, and the host receives
    /// datagrams from the sockets of others.
    pub(crate) sockets: Sockets,
    pub(crate) counts: Counts,
}

impl Addresses {
    /// # Errors If a socket cannot be bound, or the kernel lacks an option; the message names the
    /// address.
    pub(crate) fn open(hosts: &[Vec<SocketAddrV4>], listen: SocketAddrV4) -> io::Result<Addresses> {
        let attached = |(place, of): (u32, &Vec<SocketAddrV4>)| {
            of.iter().map(move |&address| Host { place, address }).collect::<Vec<_>>()
        };
        let hosts: Vec<Host> = (0..).zip(hosts).flat_map(attached).collect();
        let mut sockets = Sockets::new()?;
        for number in 0..hosts.len() {
            let at = address(listen, number)?;
            open(&mut sockets, at).map_err(|why| {
                io::Error::new(why.kind(), format!("cannot listen on {at}: {why}"))
            })?;
        }
        let numbers = (0..).zip(&hosts).map(|(number, host)| (host.address, number)).collect();
        Ok(Addresses { hosts, numbers, sockets, counts: Counts::default() })
    }

    /// The addresses to which hosts send, ordered by sender, then by destination.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let at = |number: u32| {
            let at = getsockname::<SockaddrIn>(self.sockets.get(number).as_raw_fd());
            at.ok().map(SocketAddrV4::from)
        };
        let sockets: Vec<_> = self.hosts.iter().zip((0..).map(at)).collect();
        let paths = self.hosts.iter().flat_map(|from| {
            let others = sockets.iter().filter(move |(to, _)| to.place != from.place);
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

    /// Receives datagrams; returns whether more may be pending.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        let Addresses { hosts, numbers, sockets, counts } = self;
        sockets.receive(|message: Message<'_, SockaddrIn>| {
            counts.received += 1;
            let to = message.socket;
            let from = message.from.and_then(|from| numbers.get(&SocketAddrV4::from(from)));
            let place = |host: u32| hosts[host as usize].place;
            let Some(&from) = from.filter(|&&from| place(from) != place(to)) else {
                counts.filtered += 1;
                return;
            };
            let path = from * hosts.len() as u32 + to;
            let route = Route { path, from: place(from), to: place(to), flow: 0 };
            let content = Content::datagram(message.tos, message.bytes);
            each(Received { routes: &[route], stamp: message.stamp, content });
        })
    }

    /// Sends a datagram to the host at the end of its path.
    pub(crate) fn send(&self, path: u32, datagram: &Datagram) -> io::Result<()> {
        let socket = self.sockets.get(path / self.hosts.len() as u32);
        let to = SockaddrIn::from(self.ends(path)[1].address);
        let slices = datagram.payload().map(IoSlice::new);
        let tos = datagram.tos();
        let control = [ControlMessage::Ipv4Tos(&tos)];
        sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

/// The address whose port is `number` above the first.
fn address(listen: SocketAddrV4, number: usize) -> io::Result<SocketAddrV4> {
    let (ip, first): (Ipv4Addr, u16) = (*listen.ip(), listen.port());
    if first == 0 {
        return Ok(listen);
    }
    let port = u16::try_from(number).ok().and_then(|number| first.checked_add(number));
    let why = || format!("UDP port {first} + {number} exceeds 65535");
    port.map(|port| SocketAddrV4::new(ip, port))
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, why()))
}

fn open(sockets: &mut Sockets, at: SocketAddrV4) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    setsockopt(&socket, IpRecvTos, &true)?;
    sockets.add(at.to_string(), socket.into())
}
