//! Warm-up, samples, and the records that a run leaves.

use super::*;

impl<P: Probe> Engine<P> {
    /// Samples the switch buffers, and keeps the event list's horizon ahead.
    pub(super) fn on_sampler(&mut self) {
        self.events.rebase(self.now);
        let next = if self.warm {
            self.commit_all();
            for switch in &mut self.switches {
                switch.occupancy.add(switch.used, 1);
                switch.sampled_max = switch.sampled_max.max(switch.used);
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

    /// Everything measured so far is forgotten. What is queued now is charged only for its wait from now on.
    pub(super) fn warm_up(&mut self) {
        self.warm = true;
        self.flows.warm_up();
        for (index, port) in self.ports.iter_mut().enumerate() {
            port.waits = Default::default();
            self.baselines[index] = Baseline {
                tx_bytes: port.tx_bytes,
                packets: port.packets,
                busy: port.busy_beyond(self.now),
                byte_ps: queued_byte_ps(port, &self.packets.frames, self.now),
            };
            port.waits.max_bytes = if port.owner & HOST == 0 { port.queue_bytes } else { 0 };
            if let Some(histograms) = self.histograms.get_mut(index) {
                histograms.restart(self.now);
            }
        }
        for switch in &mut self.switches {
            switch.drops = 0;
        }
    }

    /// Appends the flows that finished, in order of completion, then id.
    pub fn take_finished(&mut self, out: &mut Vec<FlowRecord>) {
        self.flows.take_finished(self.now, self.setup.warmup, out);
    }

    /// Samples the running flows and the ports: delivered bytes in all, windows, queues.
    pub fn sample(&mut self, out: &mut Vec<Sample>) {
        self.commit_all();
        let at = self.now;
        for live in &self.flows.live {
            let record = &live.record;
            if record.completed.is_some() {
                continue;
            }
            let mut push = |quantity, value| out.push(Sample { at, entity: record.id, quantity, value });
            push(Quantity::DeliveredBytes, record.delivered_bytes as f64);
            let transport = self.hosts[record.src as usize].existing(record.stack);
            if let Some((window, _)) = transport.and_then(|transport| transport.limits(live.handle))
                && window.is_finite()
            {
                push(Quantity::WindowBytes, window);
            }
        }
        for (index, port) in self.ports.iter().enumerate().filter(|(_, port)| port.owner & HOST == 0) {
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

    /// Ends the run where it is. Flows that finished and were not taken come first among `finished`.
    pub fn finish(mut self) -> (Vec<FlowRecord>, Outcome) {
        self.commit_all();
        if !self.warm {
            self.warm_up();
        }
        let end = self.now;
        let (finished, unfinished, mut digest) = self.flows.take_rest(end, self.setup.warmup);
        let links: Vec<_> = (0..self.ports.len()).map(|index| self.link_record(index, end)).collect();
        for (port, link) in self.ports.iter().zip(&links) {
            let parts =
                [link.wire_bytes, link.packets, link.drops, link.ecn_marks, port.waits.byte_ps as u64];
            digest =
                parts.iter().fold(digest, |digest, &x| mix64(digest ^ x).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let mean = |switch: &Switch| {
            let ports = &self.switch_ports[switch.first_port as usize..switch.last_port as usize];
            ports.iter().map(|&port| links[port as usize].queue_bytes.mean).sum::<f64>()
        };
        let switches = self.switches.iter().enumerate().map(|(i, switch)| SwitchRecord {
            switch: i as u32,
            buffer_bytes: Spread {
                mean: if span > 0.0 { mean(switch) } else { 0.0 },
                p99: switch.occupancy.quantile(0.99),
                max: switch.sampled_max as f64,
            },
            samples: switch.occupancy.weight(),
            drops: switch.drops,
        });
        let outcome = Outcome {
            unfinished,
            switches: switches.collect(),
            links,
            faults: self.fault_counts,
            digest,
            packet_hops: self.packet_hops,
            events: self.handled,
        };
        (finished, outcome)
    }

    pub(super) fn link_record(&mut self, index: usize, end: Time) -> LinkRecord {
        let port = &self.ports[index];
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let (from, to) = self.links[index];
        let before = self.baselines[index];
        let packets = port.packets - before.packets;
        let queue = port.waits.byte_ps + queued_byte_ps(port, &self.packets.frames, end);
        let histograms = self.histograms.get_mut(index).map(|histograms| {
            histograms.level(end, port.queue_bytes);
            &*histograms
        });
        let per = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let wire_bytes = port.tx_bytes - before.tx_bytes;
        // What was under way at warm-up belongs in part, and what is under way now does so too.
        let busy = port.serialise_all(wire_bytes) + before.busy;
        let utilisation = per(busy.since(port.busy_beyond(end)).as_ps() as f64, span).min(1.0);
        LinkRecord {
            from,
            to,
            utilisation,
            rate_bps: self.rates[index].as_bps(),
            wire_bytes,
            packets,
            queue_bytes: Spread {
                mean: per(queue.saturating_sub(before.byte_ps) as f64, span),
                p99: histograms.and_then(|h| h.bytes.quantile(0.99)),
                max: port.waits.max_bytes as f64,
            },
            queue_delay_us: Spread {
                mean: per(port.waits.delay_ps as f64 * 1e-6, packets as f64),
                p99: histograms.and_then(|h| h.delay_ns.quantile(0.99)).map(|ns| ns * 1e-3),
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
    port.queued(frames).map(|frame| frame.wire_bytes as u128 * now.since(frame.at).as_ps() as u128).sum()
}
