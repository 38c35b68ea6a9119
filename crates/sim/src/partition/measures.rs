//! Warm-up, samples, and the records that a partition produces.

use super::*;

impl<P: Probe, N: Naming> Partition<P, N> {
    /// Samples the switch buffers, and moves the event list's epoch on when needed.
    pub(super) fn on_sampler(&mut self) {
        self.events.rebase(self.now);
        let next = if self.closed {
            self.now + FAR
        } else if self.warm {
            // An event costs about as much as eight ports. With many ports and no traffic, samples
            // are all the work there is.
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

    pub(crate) fn commit_all(&mut self) {
        for index in 0..self.own_ports as u32 {
            self.commit(index);
        }
    }

    /// Discards all measurements so far. Packets that are queued now are charged only for their
    /// wait from now on.
    pub(crate) fn warm_up(&mut self) {
        self.commit_all();
        self.warm = true;
        let from = self.setup.warmup;
        for index in 0..self.ports.len() {
            let byte_ps = self.queued_byte_ps(index as u32, from);
            let (sent, paused) = (self.sent(index), self.paused(index, from));
            let port = &mut self.ports[index];
            let waited = port.waits.byte_ps;
            port.waits = Default::default();
            self.baselines[index] = Baseline {
                tx_bytes: port.tx_bytes,
                packets: port.packets,
                busy: port.busy_beyond(from),
                unsent: Span::ZERO,
                byte_ps,
                waited,
                sent,
                paused,
            };
            port.waits.max_bytes = if port.owner & HOST == 0 { port.queue_bytes } else { 0 };
            if let Some(histograms) = self.histograms.get_mut(index) {
                histograms.restart(from);
            }
        }
        self.racks.iter_mut().for_each(|racks| racks.warm_up());
        for scheduler in self.schedulers.iter_mut().flatten() {
            scheduler.credit_drops = 0;
            scheduler.credit_byte_ps = -scheduler.credits_waited(from, &self.packets.frames);
        }
        for switch in &mut self.switches {
            switch.drops = 0;
            switch.max_used = switch.used;
        }
    }

    /// Ends the measured window of links and switches. Returns the records of those that belong to
    /// this partition, by global port ID.
    pub(crate) fn close(&mut self) -> (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>) {
        self.closed = true;
        self.records()
    }

    /// Returns the same records as of now, without ending the window.
    pub(crate) fn records(&mut self) -> (Vec<(u32, LinkRecord)>, Vec<SwitchRecord>) {
        self.commit_all();
        let end = self.now;
        let links = (0..self.own_ports)
            .map(|index| (self.port_names.name(index as u32), self.link_record(index, end)))
            .collect();
        let switches = self.own_switches.iter().map(|&switch| self.switch_record(switch, end));
        (links, switches.collect())
    }

    /// Bytes queued at every switch port of the partition, by global port ID.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (u32, u32)> {
        let ports = (0..).zip(&self.ports[..self.own_ports]);
        ports
            .filter(|(_, port)| port.owner & HOST == 0)
            .map(|(index, port)| (self.port_names.name(index), port.queue_bytes))
    }

    /// By switch port of the partition: queueing since time 0 in byte picoseconds, and wire bytes
    /// sent since then.
    pub(crate) fn carried(&self) -> impl Iterator<Item = (u32, (u128, u64))> {
        (0..self.own_ports).zip(&self.ports).filter(|(_, port)| port.owner & HOST == 0).map(
            |(index, port)| {
                let left = self.baselines[index].waited + port.waits.byte_ps;
                let queued = self.queued_byte_ps(index as u32, self.now);
                (self.port_names.name(index as u32), (left + queued, port.tx_bytes))
            },
        )
    }

    /// Total pause time of the partition's ports that have ever been paused, by global port ID.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = (u32, Span)> {
        let ports = if self.has_pfc() { self.own_ports } else { 0 };
        let paused = (0..ports).map(|index| (index, self.paused(index, self.now)));
        let ever_paused = paused.filter(|(_, (times, _))| *times > 0);
        ever_paused.map(|(index, (_, span))| (self.port_names.name(index as u32), span))
    }

    /// Queueing at every port of the partition in byte picoseconds, by global port ID.
    pub(crate) fn byte_ps(&self) -> impl Iterator<Item = (u32, u128)> {
        let ports = (0..).zip(&self.ports[..self.own_ports]);
        ports.map(|(index, port)| (self.port_names.name(index), port.waits.byte_ps))
    }

    /// Windows in wire bytes of the flows that this partition sends, by flow ID and in no order.
    /// Flows without a window are left out.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (u64, f64)> {
        self.flows.senders().filter_map(|sending| {
            let host = &self.hosts[self.local_host(sending.flow.src)? as usize];
            let limits = host.transports.existing(sending.flow.stack)?.limits(sending.handle)?;
            Some((sending.id, limits.window_bytes)).filter(|(_, bytes)| bytes.is_finite())
        })
    }

    /// Payload submitted at `host` and not yet sent for the first time; `None` if another partition
    /// has the host.
    pub(crate) fn backlog_bytes(&self, host: u32) -> Option<u64> {
        self.local_host(host).map(|host| self.hosts[host as usize].transports.backlog_bytes())
    }

    fn switch_record(&self, switch: u32, end: Time) -> SwitchRecord {
        let state = &self.switches[switch as usize];
        let ports = &self.switch_ports[state.first_port as usize..state.last_port as usize];
        let queued: u128 =
            ports.iter().map(|&port| self.queued_since_warmup(port as usize, end)).sum();
        let credits: i128 = ports.iter().map(|&port| self.credits_since_warmup(port, end)).sum();
        let queued = queued.saturating_sub(credits.max(0) as u128);
        SwitchRecord {
            switch,
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

    /// Queueing at a port since warm-up, in byte picoseconds.
    fn queued_since_warmup(&self, index: usize, end: Time) -> u128 {
        let port = &self.ports[index];
        let queued = port.waits.byte_ps + self.queued_byte_ps(index as u32, end);
        queued.saturating_sub(self.baselines[index].byte_ps)
    }

    /// Queueing of credits at a port since warm-up, in byte picoseconds. Credits are not part of
    /// the switch's buffer.
    fn credits_since_warmup(&self, index: u32, end: Time) -> i128 {
        let scheduler = self.schedulers.get(index as usize).and_then(Option::as_deref);
        scheduler.map_or(0, |of| of.credit_byte_ps) + self.credits_waited(index, end)
    }

    /// Bounds mean and percentile by `max`: a percentile is the middle of a histogram bin and could
    /// exceed it.
    fn spread(&self, byte_ps: u128, end: Time, p99: Option<f64>, max: f64) -> Spread {
        let span = end.since(self.setup.warmup).as_ps() as f64;
        let mean = if span > 0.0 { byte_ps as f64 / span } else { 0.0 };
        Spread { mean: mean.min(max), p99: p99.map(|p99| p99.min(max)), max }
    }

    fn link_record(&mut self, index: usize, end: Time) -> LinkRecord {
        let queued = self.queued_since_warmup(index, end);
        let port = &self.ports[index];
        let name = self.port_names.name(index as u32);
        let span = self.open_span(name, end).as_ps() as f64;
        let PortEnds { from, to } = self.setup.fabric.port_ends(name);
        let before = self.baselines[index];
        let packets = port.packets - before.packets;
        let waited = self.racks.as_ref().and_then(|racks| racks.left(index as u32));
        let (p99_bytes, p99_delay_ns) =
            self.histograms.get_mut(index).map_or((None, None), |histograms| {
                histograms.level(end, port.queue_bytes);
                (histograms.bytes.quantile(0.99), histograms.delay_ns.quantile(0.99))
            });
        let per = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
        let wire_bytes = port.tx_bytes - before.tx_bytes;
        // Transmissions that were in progress at warm-up count in part, and so do those in progress
        // now.
        let sending = match self.schedulers.get(index) {
            Some(Some(_)) => self.sent(index).beyond(before.sent),
            _ => port.serialise_all(wire_bytes),
        };
        let busy = sending + before.busy;
        let unsent = before.unsent + port.busy_beyond(end);
        let (pauses, paused) = self.paused(index, end);
        let scheduler = self.schedulers.get(index).and_then(Option::as_ref);
        let utilisation = per(busy.beyond(unsent).as_ps() as f64, span).min(1.0);
        LinkRecord {
            from,
            to,
            utilisation,
            rate_bps: self.rates[index].as_bps(),
            wire_bytes,
            packets,
            queue_bytes: self.spread(queued, end, p99_bytes, port.waits.max_bytes as f64),
            queue_delay_us: Spread {
                mean: per(port.waits.delay_ps as f64 * 1e-6, waited.unwrap_or(packets) as f64),
                p99: p99_delay_ns.map(|ns| ns * 1e-3),
                max: port.waits.max_delay.as_us_f64(),
            },
            drops: port.waits.drops,
            credit_drops: scheduler.map_or(0, |scheduler| scheduler.credit_drops),
            ecn_marks: port.waits.marks,
            pfc_pauses: pauses - before.paused.0,
            paused: paused.beyond(before.paused.1),
        }
    }

    /// Waiting so far of the queued packets, in byte picoseconds.
    pub(super) fn queued_byte_ps(&self, index: u32, now: Time) -> u128 {
        let (port, frames) = (&self.ports[index as usize], &self.packets.frames);
        if port.owner & HOST != 0 {
            return 0;
        }
        let waited = |frame: &tidegate_core::Frame| {
            frame.wire_bytes as u128 * now.since(frame.at).as_ps() as u128
        };
        if let Some(racks) = &self.racks
            && let Some(queued) = racks.queued(index, &self.packets)
        {
            return queued.map(waited).sum();
        }
        match self.schedulers.get(index as usize).and_then(Option::as_ref) {
            Some(scheduler) => {
                let queued = scheduler.packets(frames).map(|packet| &frames[packet as usize]);
                queued.map(waited).sum()
            }
            None => port.queued(frames).map(waited).sum(),
        }
    }

    /// Number of pauses of a port, and their total duration by `now`.
    fn paused(&self, index: usize, now: Time) -> (u64, Span) {
        self.pause_state(index)
            .map_or((0, Span::ZERO), |pause_state| (pause_state.times, pause_state.span(now)))
    }

    /// Time that a port with a scheduler has spent sending.
    fn sent(&self, index: usize) -> Span {
        let scheduler = self.schedulers.get(index).and_then(Option::as_ref);
        scheduler.map_or(Span::ZERO, |scheduler| scheduler.busy)
    }
}
