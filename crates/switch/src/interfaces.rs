//! Hosts behind network interfaces: one packet socket per interface.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::sockopt::{SetBool, SetStruct};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, UnixAddr, bind, recv,
    send, sendmsg, setsockopt, socket,
};

use crate::Counts;
use crate::datagram::Datagram;
use crate::ethernet::{self, HEADER_BYTES, TAG_BYTES};
use crate::received::Received;
use crate::slots::Route;
use crate::sockets::{Message, Sockets};
use crate::stations::Stations;

/// Socket option: the kernel delivers auxiliary data with each frame.
#[derive(Clone)]
struct Auxiliary;
nix::setsockopt_impl!(Auxiliary, libc::SOL_PACKET, libc::PACKET_AUXDATA, bool, SetBool);

/// Socket option: the interface also receives frames for other addresses.
#[derive(Clone)]
struct Membership;
nix::setsockopt_impl!(
    Membership,
    libc::SOL_PACKET,
    libc::PACKET_ADD_MEMBERSHIP,
    libc::packet_mreq,
    SetStruct<'_, libc::packet_mreq>
);

/// The interface of a host of the fabric.
struct Interface {
    name: String,
    index: usize,
    /// Maximum length of its frames.
    most_bytes: usize,
    /// Keeps other switches from using the interface.
    _claim: OwnedFd,
    /// Whether it delivered frames that hardware should have finished.
    unfinished: bool,
}

pub(crate) struct Interfaces {
    /// Interfaces by host of the fabric.
    all: Vec<Interface>,
    pub(crate) sockets: Sockets,
    stations: Stations,
    routes: Vec<Route>,
    scratch: Vec<u8>,
    pub(crate) counts: Counts,
}

impl Interfaces {
    /// # Errors If an interface does not exist, is not usable, or is not permitted; the message
    /// names it and the reason.
    pub(crate) fn open(names: &[String]) -> io::Result<Interfaces> {
        let mut sockets = Sockets::new()?;
        let mut all = Vec::new();
        for name in names {
            all.push(
                open(name, &mut sockets).map_err(|why| {
                    io::Error::new(why.kind(), format!("interface {name}: {why}"))
                })?,
            );
        }
        Ok(Interfaces {
            stations: Stations::new(all.len() as u32),
            all,
            sockets,
            routes: Vec::new(),
            scratch: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Receives frames; returns whether more may be pending.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        let Interfaces { all, sockets, stations, routes, scratch, counts } = self;
        sockets.receive(|message: Message<'_, LinkAddr>| {
            let Message { socket: place, from, stamp, metadata, bytes, .. } = message;
            let interface = &mut all[place as usize];
            // A packet socket also receives frames that the kernel sends on its interface and,
            // until it is bound, frames of all other interfaces.
            let is_input = |from: &LinkAddr| {
                from.pkttype() != libc::PACKET_OUTGOING && from.ifindex() == interface.index
            };
            if !from.as_ref().is_some_and(is_input) {
                return;
            }
            counts.received += 1;
            if metadata.unfinished || bytes.len() > interface.most_bytes {
                counts.unfinished += 1;
                interface.unfinished = true;
                return;
            }
            let frame = match metadata.tag {
                None => bytes,
                Some(tag) => {
                    ethernet::tagged(bytes, tag, scratch);
                    &scratch[..]
                }
            };
            let (content, flow) = ethernet::content(frame);
            routes.clear();
            if let Some(addresses) = ethernet::addresses(frame) {
                let route = |to| Route { path: to, from: place, to, flow };
                routes.extend(stations.destinations(place, addresses).map(route));
            }
            if routes.is_empty() {
                counts.filtered += 1;
                return;
            }
            each(Received { routes, stamp, content });
        })
    }

    /// Sends a frame on the interface at the end of its path.
    pub(crate) fn send(&self, path: u32, datagram: &Datagram) -> io::Result<()> {
        let [telemetry, rest] = datagram.payload();
        let slices = [datagram.head(), telemetry, rest].map(IoSlice::new);
        let fd = self.sockets.get(path).as_raw_fd();
        sendmsg::<LinkAddr>(fd, &slices, &[], MsgFlags::MSG_DONTWAIT, None)?;
        Ok(())
    }

    /// Names of interfaces that delivered unfinished frames.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let unfinished = self.all.iter().filter(|interface| interface.unfinished);
        unfinished.map(|interface| interface.name.clone()).collect()
    }
}

fn open(name: &str, sockets: &mut Sockets) -> io::Result<Interface> {
    let socket = packets().map_err(|why| match why {
        Errno::EPERM | Errno::EACCES => io::Error::new(
            ErrorKind::PermissionDenied,
            "frames need root or CAP_NET_RAW; hosts with addresses need neither",
        ),
        why => why.into(),
    })?;
    let refused = |why: &str| io::Error::new(ErrorKind::InvalidInput, why);
    let link = getifaddrs()?
        .filter(|interface| interface.interface_name == name)
        .find_map(|interface| Some((*interface.address?.as_link_addr()?, interface.flags)));
    let (link, flags) = link.ok_or_else(|| refused("no such interface"))?;
    if link.hatype() != libc::ARPHRD_ETHER {
        return Err(refused("not an Ethernet interface"));
    }
    if !flags.contains(InterfaceFlags::IFF_UP) {
        return Err(refused(&format!("it is down: enable it with `ip link set {name} up`")));
    }
    let index = link.ifindex();
    let claim = claimed(index).map_err(|why| match why {
        Errno::EADDRINUSE => refused("in use by another switch"),
        why => why.into(),
    })?;
    setsockopt(&socket, Auxiliary, &true)?;
    let everything = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    setsockopt(&socket, Membership, &everything)?;
    bind(socket.as_raw_fd(), &link)?;
    sockets.add(format!("interface {name}"), socket)?;
    // The kernel removes the outer tag; there may be an inner one.
    let most_bytes = HEADER_BYTES + TAG_BYTES + mtu(index as u32)?;
    Ok(Interface { name: name.to_owned(), index, most_bytes, _claim: claim, unfinished: false })
}

/// Claims an interface against other switches by an abstract socket name. The name belongs to this
/// network namespace and disappears with the process.
fn claimed(index: usize) -> nix::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::Datagram);
    let claim = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let name = format!("tidegate-switch-{index}");
    bind(claim.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    Ok(claim)
}

/// Opens a packet socket for all protocols.
fn packets() -> nix::Result<OwnedFd> {
    let (family, protocol) = (AddressFamily::Packet, SockProtocol::EthAll);
    socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
}

/// Queries the MTU of an interface from the kernel (rtnetlink(7)).
fn mtu(index: u32) -> io::Result<usize> {
    // A netlink header and an interface header.
    const HEADERS_BYTES: usize = 16 + 16;
    let (family, protocol) = (AddressFamily::Netlink, SockProtocol::NetlinkRoute);
    let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    let mut query = [0; HEADERS_BYTES];
    query[..4].copy_from_slice(&(HEADERS_BYTES as u32).to_ne_bytes());
    query[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    query[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    query[20..24].copy_from_slice(&index.to_ne_bytes());
    send(socket.as_raw_fd(), &query, MsgFlags::empty())?;
    let mut answer = vec![0; 1 << 15];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let mut attributes = answer[..length].get(HEADERS_BYTES..).unwrap_or_default();
    while let Some((&[a, b, c, d], _)) = attributes.split_first_chunk() {
        let [length, kind] = [[a, b], [c, d]].map(u16::from_ne_bytes);
        let length = usize::from(length);
        let Some(value) = attributes.get(4..length) else { break };
        if kind == libc::IFLA_MTU
            && let Some(&mtu) = value.first_chunk()
        {
            return Ok(u32::from_ne_bytes(mtu) as usize);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Err(io::Error::other("the kernel does not report the MTU"))
}
