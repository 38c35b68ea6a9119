//! Properties of the interfaces of this thread's network namespace, as the kernel reports them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla,
    NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcOption};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};
use tidegate_core::Rate;

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) is_veth: bool,
    /// Index of the other end of a veth pair in this namespace.
    pub(crate) other_end: Option<u32>,
    /// Names of its queueing disciplines.
    pub(crate) queues: Vec<String>,
    /// Rate of its queueing discipline tbf, rounded down to bytes per second.
    pub(crate) tbf_rate: Option<Rate>,
}

/// The interfaces.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let links = dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let mut interfaces: Vec<_> = links
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(of_link(&link)),
            _ => None,
        })
        .collect();
    for message in dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()))? {
        let RouteNetlinkMessage::NewQueueDiscipline(queue) = message else { continue };
        let index = queue.header.index as u32;
        if let Some(interface) = interfaces.iter_mut().find(|other| other.index == index) {
            add_queue(interface, &queue);
        }
    }
    Ok(interfaces)
}

fn of_link(link: &LinkMessage) -> Interface {
    let mut interface = Interface { index: link.header.index, ..Interface::default() };
    let mut is_elsewhere = false;
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Link(index) => interface.other_end = Some(*index),
            // The index is of another namespace.
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                interface.is_veth = infos.contains(&LinkInfo::Kind(InfoKind::Veth));
            }
            _ => {}
        }
    }
    interface.other_end = interface.other_end.filter(|_| interface.is_veth && !is_elsewhere);
    interface
}

fn add_queue(interface: &mut Interface, queue: &TcMessage) {
    for attribute in &queue.attributes {
        match attribute {
            TcAttribute::Kind(kind) => interface.queues.push(kind.clone()),
            TcAttribute::Options(options) if interface.queues.last().is_some_and(is_tbf) => {
                interface.tbf_rate = tbf_rate(options);
            }
            _ => {}
        }
    }
}

fn is_tbf(kind: &String) -> bool {
    kind == "tbf"
}

/// The rate in the options of tbf: `TCA_TBF_PARMS` (1) begins with `struct tc_ratespec`, whose last
/// word is the rate in bytes per second; `TCA_TBF_RATE64` (4) has rates beyond 32 bits.
fn tbf_rate(options: &[TcOption]) -> Option<Rate> {
    // The library leaves the options of this discipline in one piece.
    let [whole] = options else { return None };
    let mut bytes = vec![0; whole.value_len()];
    whole.emit_value(&mut bytes);
    let (mut small, mut large) = (None, None);
    for option in NlasIterator::new(&bytes[..]).flatten() {
        match option.kind() {
            1 => small = option.value().get(8..12).and_then(|word| word.try_into().ok()),
            4 => large = option.value().try_into().ok(),
            _ => {}
        }
    }
    let large = large.map(u64::from_ne_bytes);
    let rate = large.or_else(|| Some(u32::from_ne_bytes(small?).into()));
    rate.map(|bytes| Rate::bps(bytes.saturating_mul(8)))
}

/// All answers to a request. If another program changes interfaces meanwhile, some can be missing:
/// the request is repeated.
fn dump(request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    for _ in 0..10 {
        if let Some(answers) = dump_once(request.clone())? {
            return Ok(answers);
        }
    }
    Err(io::Error::other("interfaces change all the time: repeat the command later"))
}

/// The answers; `None` if they are not of one time.
fn dump_once(request: RouteNetlinkMessage) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
    let socket = open()?;
    let mut request = NetlinkMessage::new(NetlinkHeader::default(), request.into());
    request.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    send(socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
    let (mut answers, mut is_torn) = (Vec::new(), false);
    // The kernel fills at most this much.
    let mut buffer = vec![0; 1 << 16];
    loop {
        let received = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..received];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(io::Error::other)?;
            let length = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length.max(4)..).unwrap_or_default();
            is_torn |= message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Done(_) => return Ok((!is_torn).then_some(answers)),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
}

fn open() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
}
