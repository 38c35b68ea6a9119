//! Warm-up, samples, and the records that a run leaves.

use super::*;

impl<P: Probe> Engine<P> {
    /// Samples the switch buffers, and keeps the event list's horizon ahead.
    pub(super) fn on_sampler(&mut self) {
        self.events.rebase(self.now);
        let next = if self.measured.is_some() {
            self.now + FAR
        } else if self.warm {
            // An event costs as much as some eight ports: with many of them and no traffic this is
            // all the work there is.
            self.work = self.work.saturating_sub(self.ports.len() as u64 / 8);
            self.commit_all();
            for switch in &mut self.switches {
                switch.occupancy.add(switch.used, 1);
            }
            self.now + SAMPLE_INTERVAL
        } else {
            self.setup.warmup.min(self.now + FAR)
        };
        let source = self.sampler();
        self.events.set(source, next);
    }

    pub(super) fn commit_all(&mut self) {
        for index in 0..self.ports.len() as u32 {
            self.commit(index);
        }
    }

    /// Everything measured so far is forgotten. What is queued now is charged only for its wait
    /// from now on.
    pub(super) fn warm_up(&mut self) {
        self.warm = true;
        let from = self.setup.warmup;
        for (index, port) in self.ports.iter_mut().enumerate() {
            port.waits = Default::default();
            self.baselines[index] = Baseline {
                tx_bytes: port.tx_bytes,
                packets: port.packets,
                busy: port.busy_beyond(from),
                unsent: Time::ZERO,
                byte_ps: queued_byte_ps(port, &self.packets.frames, from),
            };
            port.waits.max_bytes = if port.owner & HOST == 0 { port.queue_bytes } else { 0 };
            if let Some(histograms) = self.histograms.get_mut(index) {
                histograms.restart(from);
            }
        }
        for switch in &mut self.switches {
            switch.drops = 0;
            switch.max_used = switch.used;
        }
    }

    /// What is measured of links and switches ends here.
    pub(super) fn close_window(&mut self) {
        self.commit_all();
        let end = self.now;
        let links: Vec<_> =
            (0..self.ports.len()).map(|index| self.link_record(index, end)).collect();
        let switches =
            (0..self.switches.len()).map(|switch| self.switch_record(switch, end)).collect();
        self.measured = Some((links, switches));
    }

    /// Appends the flows that finished, in order of completion, then id.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) {
        let first = out.len();
        self.flows.take_finished(self.now, out);
        debug_assert!(out[first..].iter().all(|record| self.is_within_links(record)));
    }

    /// Samples the running flows and the ports: delivered bytes in all, windows, queues.
    pub fn sample(&mut self, out: &mut Vec<Sample>) {
        self.commit_all();
        let at = self.now;
        for live in self.flows.running() {
            let record = &live.record;
            let mut push =
                |quantity, value| out.push(Sample { at, entity: record.id, quantity, value });
            push(Quantity::DeliveredBytes, record.delivered_bytes as f64);
            let transport = self.hosts[record.src as usize].existing(record.stack);
            if let Some((window, _)) = transport.and_then(|transport| transport.limits(live.handle))
                && window.is_finite()
            {
                push(Quantity::WindowBytes, window);
            }
        }
        for (index, port) in
            self.ports.iter().enumerate().filter(|(_, port)| port.owner & HOST == 0)
        {
            out.push(Sample {
                at,
                entity: index as u64,
                quantity: Quantity::QueueBytes,
                value: port.queue_bytes as f64,
            });
        }
    }

    /// Payload submitted at `host` and not yet sent for the first time.
    pub fn backlog_bytes(&self, host: u32) -> u64 {
        self.hosts[host as usize].backlog_bytes()
    }

    /// Ends the run where it is. Flows that finished and were not taken come first among
    /// `finished`.
    pub fn finish(mut self) -> (Vec<FlowRecord>, Outcome) {
        self.commit_all();
        if !self.warm {
            self.warm_up();
        }
        if self.measured.is_none() {
            self.close_window();
        }
        let (links, switches) = self.measured.take().unwrap_or_default();
        let (finished, unfinished, mut digest) = self.flows.take_rest(self.now);
        for (port, link) in self.ports.iter().zip(&links) {
            let parts = [
                link.wire_bytes,
                link.packets,
                link.drops,
                link.ecn_marks,
                port.waits.byte_ps as u64,
            ];
            digest = parts
                .iter()
                .fold(digest, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        debug_assert!(
            finished.iter().chain(&unfinished).all(|record| self.is_within_links(record))
        );
        debug_assert!((0..self.hosts.len()).all(|host| self.receives_within_link(host)));
        let outcome = Outcome {
            unfinished,
            switches,
            links,
            faults: self.fault_counts,
            digest,
            packet_hops: self.packet_hops,
            events: self.handled,
        };
        (finished, outcome)
    }

    /// Whether a flow is not faster than the links of its two hosts. Every run in every test is
    /// held to that.
    fn is_within_links(&self, record: &FlowRecord) -> bool {
        let nic = self.routing.nic_rate(record.src).min(self.routing.nic_rate(record.dst));
        let within = record.goodput_bps().is_none_or(|bps| bps <= self.payload_bps(nic));
        assert!(within, "{:?} bit/s is above {nic}: {record:?}", record.goodput_bps());
        within
    }

    /// Whether a host's link could carry what is said to have been delivered to it.
    fn receives_within_link(&self, host: usize) -> bool {
        let nic = self.routing.nic_rate(host as u32);
        let span = self.now.min(self.setup.duration).since(self.setup.warmup).as_s_f64();
        let most = self.payload_bps(nic) * span / 8.0;
        let received = self.flows.received(host);
        assert!(
            received as f64 <= most + 1e-3,
            "{received} B to host {host}, whose link carries {most}"
        );
        true
    }

    /// What a link carries of payload, which is most in full packets; a bit/s in a million more,
    /// for a byte may not take a whole number of picoseconds.
    fn payload_bps(&self, rate: Rate) -> f64 {
        let mtu = self.setup.fabric.mtu as f64;
        rate.as_bps() as f64 * mtu / (mtu + HEADER_BYTES as f64) * (1.0 + 1e-6)
    }

    fn switch_record(&self, switch: usize, end: Time) -> SwitchRecord {
        let state = &self.switches[switch];
        let ports = &self.switch_ports[state.first_port as usize..state.last_port as usize];
        let queued: u128 =
            ports.iter().map(|&port| self.queued_since_warmup(port as usize, end)).sum();
        SwitchRecord {
            switch: switch as u32,
            buffer_bytes: self.spread(
                queued,
                end,
                state.occupancy.quantile(0.99),
                state.max_used as f64,
            ),
            samples: state.occupancy.weight(),
            drops: state.drops,
        }
    }

    /// What packets have waited for at a port since warm-up, in byte picoseconds.
    fn queued_since_warmup(&self, index: usize, end: Time) -> u128 {
        let port = &self.ports[index];
        let queued = port.waits.byte_ps + queued_byte_ps(port, &self.packets.frames, end);
        queued.saturating_sub(self.baselines[index].byte_ps)
    }

    /// A queue that holds `max` at most cannot hold more on average, or in a percentile, which is
    /// the middle of a class.
    fn spread(&self, byte_ps: u128, end: Time, p99: Option<f64>, max: f64) -> Spread {
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let mean = if span > 0.0 { byte_ps as f64 / span } else { 0.0 };
        Spread { mean: mean.min(max), p99: p99.map(|p99| p99.min(max)), max }
    }

    pub(super) fn link_record(&mut self, index: usize, end: Time) -> LinkRecord {
        let queued = self.queued_since_warmup(index, end);
        let port = &self.ports[index];
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let (from, to) = self.links[index];
        let before = self.baselines[index];
        let packets = port.packets - before.packets;
        let (p99_bytes, p99_delay_ns) =
            self.histograms.get_mut(index).map_or((None, None), |histograms| {
                histograms.level(end, port.queue_bytes);
                (histograms.bytes.quantile(0.99), histograms.delay_ns.quantile(0.99))
            });
        let per = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let wire_bytes = port.tx_bytes - before.tx_bytes;
        // What was under way at warm-up belongs in part, and what is under way now does so too.
        let busy = port.serialise_all(wire_bytes) + before.busy;
        let unsent = before.unsent + port.busy_beyond(end);
        let utilisation = per(busy.since(unsent).as_ps() as f64, span).min(1.0);
        LinkRecord {
            from,
            to,
            utilisation,
            rate_bps: self.rates[index].as_bps(),
            wire_bytes,
            packets,
            queue_bytes: self.spread(queued, end, p99_bytes, port.waits.max_bytes as f64),
            queue_delay_us: Spread {
                mean: per(port.waits.delay_ps as f64 * 1e-6, packets as f64),
                p99: p99_delay_ns.map(|ns| ns * 1e-3),
                max: port.waits.max_delay.as_us_f64(),
            },
            drops: port.waits.drops,
            ecn_marks: port.waits.marks,
            pfc_pauses: 0,
        }
    }
}

/// What the queued packets have waited for so far, in byte picoseconds.
pub(super) fn queued_byte_ps(port: &Port, frames: &[tidegate_core::Frame], now: Time) -> u128 {
    if port.owner & HOST != 0 {
        return 0;
    }
    port.queued(frames)
        .map(|frame| frame.wire_bytes as u128 * now.since(frame.at).as_ps() as u128)
        .sum()
}
