//! Tests of dcPIM endpoints, alone and in a network.

use alloc::vec::Vec;

use tidegate_core::{Body, Frame, Rate};

use super::*;
use crate::harness::{
    self, Checking, FORGED, Faults, NO_FAULTS, NoPaths, Subject, message, receive, transmit, trials,
};

mod constants;
mod crowd;
mod delivery;
mod matching;
mod tokens;

type Net = harness::Net<Dcpim>;

const MTU: u32 = 1460;
/// Time of a full packet on the wire of this project: 1,540 B.
const PACKET: Span = Span::ps(123_200);

/// dcPIM's own setting, with the packet sizes used here: 49 of them are a BDP.
fn context(host: u32) -> HostContext {
    HostContext {
        mtu: MTU,
        fabric_base_rtt: Span::ps(5_524_800),
        fabric_control_rtt: Span::ps(5_233_600),
        bdp_bytes: 75_460.0,
        ..harness::context(host)
    }
}

fn settings() -> Settings {
    Settings::new(&DcpimParams::default(), &context(0))
}

/// Start of this round, from 1, of an epoch.
fn round(epoch: u64, round: u64) -> Time {
    let calendar = settings().calendar;
    Time::ZERO + calendar.phase.times(epoch) + calendar.iteration.times(round - 1)
}

fn full_packets(packets: u64) -> u64 {
    packets * MTU as u64
}

impl Subject for Dcpim {
    fn context(host: u32) -> HostContext {
        context(host)
    }

    fn check_quiet(&self, _hosts: &[Dcpim], case: &str) {
        assert!(self.inbox.is_quiet(), "{case}: a receiver has state left");
        assert!(self.outbox.is_quiet(), "{case}: a sender has a message left");
        assert!(self.control.is_empty(), "{case}");
    }
}

/// One host with hand-made packets.
struct Bench {
    host: Dcpim,
    app: Checking,
}

impl Bench {
    /// Host 0, with non-default parameters.
    fn with(params: &DcpimParams) -> Bench {
        Bench { host: Dcpim::new(params, &context(0)), app: Checking::default() }
    }

    fn new() -> Bench {
        Bench::with(&DcpimParams::default())
    }

    /// Submits a message to host `dst`.
    fn submit(&mut self, now: Time, dst: u32, bytes: u64) -> Handle {
        let id = self.app.submit(0, dst, bytes);
        self.host.submit(now, message(id, dst, bytes), &NoPaths)
    }

    /// Passes a packet from host `src`, and returns the response, if any.
    fn receive(&mut self, now: Time, src: u32, header: Header) -> Option<Header> {
        self.receive_with(now, src, header, 0)
    }

    /// The same with this payload.
    fn receive_with(
        &mut self,
        now: Time,
        src: u32,
        header: Header,
        payload: u32,
    ) -> Option<Header> {
        let mut body = Body { src, payload_bytes: payload, ..Body::default() };
        header.write(&mut body);
        body.message |= FORGED;
        let reply = receive(&mut self.host, now, &mut Frame::default(), &mut body, &mut self.app);
        (reply != Reply::None).then(|| Header::read(&body).unwrap())
    }

    /// Everything that leaves until then: time, destination, header and priority.
    fn sent_until(&mut self, from: Time, until: Time) -> Vec<(Time, u32, Header, u8)> {
        let (mut now, mut all) = (from, Vec::new());
        loop {
            if let Some((frame, body)) = transmit(&mut self.host, now) {
                all.push((now, frame.dst, Header::read(&body).unwrap(), frame.priority));
                continue;
            }
            if self.host.deadline() > until {
                return all;
            }
            now = now.max(self.host.deadline());
        }
    }

    /// The same at one time, without times and priorities.
    fn sent(&mut self, now: Time) -> Vec<(u32, Header)> {
        let all = self.sent_until(now, now);
        all.into_iter().map(|(_, dst, header, _)| (dst, header)).collect()
    }
}
