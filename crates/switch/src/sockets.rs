//! Sockets with source, time stamp and auxiliary data of each message.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimestampns, RxqOvfl};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrLike, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;

/// Requested size of socket buffers; the kernel may grant less to processes without root.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of messages from one socket before the next socket.
const MOST_MESSAGES: usize = 64;
/// Maximum number of ready sockets per poll.
const READY: usize = 64;
/// Buffer size: more than the longest datagram or frame.
const MOST_BYTES: usize = 1 << 17;
/// Size of the kernel's auxiliary data: status, two lengths, header offsets, and tag.
const AUXILIARY_BYTES: usize = 20;

struct Socket {
    /// Name in error messages.
    name: String,
    fd: OwnedFd,
    /// Number of messages dropped because its buffer was full.
    overrun: u32,
}

/// A received message.
pub(crate) struct Message<'a, A> {
    /// Number of the socket, in the order of addition.
    pub(crate) socket: u32,
    pub(crate) from: Option<A>,
    /// Time of reception by the kernel, by the real-time clock.
    pub(crate) stamp: Duration,
    /// IP type of service, if the kernel has parsed the header.
    pub(crate) tos: u8,
    /// Ethernet data that the kernel has removed from the frame.
    pub(crate) metadata: FrameMetadata,
    pub(crate) bytes: &'a [u8],
}

/// Auxiliary data of a frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct FrameMetadata {
    /// Whether its checksum was left to hardware and is missing.
    pub(crate) unfinished: bool,
    /// The tag that the kernel has removed: EtherType and content.
    pub(crate) tag: Option<[u16; 2]>,
}

impl FrameMetadata {
    /// Reads a `tpacket_auxdata`.
    fn read(bytes: &[u8]) -> FrameMetadata {
        let Some((&status, rest)) = bytes.split_first_chunk() else {
            return FrameMetadata::default();
        };
        let status = u32::from_ne_bytes(status);
        let is = |bit: u32| status & bit != 0;
        let tag = match rest.last_chunk() {
            Some(&[a, b, c, d]) if is(libc::TP_STATUS_VLAN_VALID) => {
                let kind = is(libc::TP_STATUS_VLAN_TPID_VALID);
                let kind = if kind { u16::from_ne_bytes([c, d]) } else { 0x8100 };
                Some([kind, u16::from_ne_bytes([a, b])])
            }
            _ => None,
        };
        FrameMetadata { unfinished: is(libc::TP_STATUS_CSUMNOTREADY), tag }
    }
}

pub(crate) struct Sockets {
    all: Vec<Socket>,
    epoll: Epoll,
    scratch: Vec<u8>,
    control: Vec<u8>,
}

impl Sockets {
    pub(crate) fn new() -> io::Result<Sockets> {
        Ok(Sockets {
            all: Vec::new(),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            scratch: vec![0; MOST_BYTES],
            control: cmsg_space!(u8, TimeSpec, u32, [u8; AUXILIARY_BYTES]),
        })
    }

    /// Adds a socket; `name` is used in error messages.
    pub(crate) fn add(&mut self, name: String, fd: OwnedFd) -> io::Result<()> {
        setsockopt(&fd, ReceiveTimestampns, &true)?;
        setsockopt(&fd, RxqOvfl, &1)?;
        setsockopt(&fd, RcvBufForce, &BUFFER_BYTES)
            .or_else(|_| setsockopt(&fd, RcvBuf, &BUFFER_BYTES))?;
        self.epoll.add(&fd, EpollEvent::new(EpollFlags::EPOLLIN, self.all.len() as u64))?;
        self.all.push(Socket { name, fd, overrun: 0 });
        Ok(())
    }

    pub(crate) fn get(&self, number: u32) -> BorrowedFd<'_> {
        self.all[number as usize].fd.as_fd()
    }

    /// Waits for input, at most for `most`.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from(most)), None) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    /// Receives messages; returns whether more may be pending.
    ///
    /// # Errors If the kernel reports an error; the message names the socket.
    pub(crate) fn receive<A: SockaddrLike>(
        &mut self,
        mut each: impl FnMut(Message<'_, A>),
    ) -> io::Result<bool> {
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

    fn receive_from<A: SockaddrLike>(
        &mut self,
        number: u32,
        each: &mut impl FnMut(Message<'_, A>),
    ) -> io::Result<bool> {
        let Sockets { all, scratch, control, .. } = self;
        let Socket { name, fd, overrun } = &mut all[number as usize];
        for _ in 0..MOST_MESSAGES {
            let mut slices = [IoSliceMut::new(scratch)];
            let message = match recvmsg::<A>(
                fd.as_raw_fd(),
                &mut slices,
                Some(&mut *control),
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(false),
                // ICMP reported an unreachable host, or a signal arrived.
                Err(Errno::ECONNREFUSED | Errno::EINTR) => continue,
                Err(why) => {
                    let why = io::Error::from(why);
                    return Err(io::Error::new(why.kind(), format!("{name}: {why}")));
                }
            };
            let (mut tos, mut stamp, mut metadata) = (0, Duration::MAX, FrameMetadata::default());
            for control in message.cmsgs()? {
                match control {
                    ControlMessageOwned::Ipv4Tos(of) => tos = of,
                    ControlMessageOwned::ScmTimestampns(at) => stamp = at.into(),
                    ControlMessageOwned::RxqOvfl(lost) => *overrun = lost,
                    ControlMessageOwned::Unknown(other)
                        if other.cmsg_header.cmsg_level == libc::SOL_PACKET =>
                    {
                        metadata = FrameMetadata::read(&other.data_bytes);
                    }
                    _ => {}
                }
            }
            let (from, bytes) = (message.address, message.bytes);
            each(Message { socket: number, from, stamp, tos, metadata, bytes: &scratch[..bytes] });
        }
        Ok(true)
    }

    /// Number of messages dropped because a buffer was full. The kernel reports it with the next
    /// message of the socket.
    pub(crate) fn overrun(&self) -> u64 {
        self.all.iter().map(|socket| u64::from(socket.overrun)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_read() {
        let read = |status: u32, kind: u16| {
            let mut bytes = status.to_ne_bytes().to_vec();
            bytes.extend([0; 12]);
            bytes.extend([7_u16, kind].map(u16::to_ne_bytes).concat());
            assert_eq!(bytes.len(), AUXILIARY_BYTES);
            let FrameMetadata { unfinished, tag } = FrameMetadata::read(&bytes);
            (unfinished, tag)
        };
        let (valid, kind) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        assert_eq!(read(libc::TP_STATUS_USER, 0x88a8), (false, None));
        assert_eq!(read(libc::TP_STATUS_CSUMNOTREADY, 0), (true, None));
        assert_eq!(read(valid | kind, 0x88a8), (false, Some([0x88a8, 7])));
        assert_eq!(read(valid, 0), (false, Some([0x8100, 7])));
        assert!(FrameMetadata::read(&[]).tag.is_none());
    }
}
