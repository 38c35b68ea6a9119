//! Totals of switches and ports that the measures need beside the ports' own counters.

use tidegate_core::{Frame, Time};

use super::{Links, Switch, Switching};
use crate::ports::port::HOST;

/// Totals of a switch since warm-up.
pub(in crate::partition) struct Totals {
    pub(in crate::partition) drops: u64,
    /// Maximum of the bytes buffered, and the percentile of the samples.
    pub(in crate::partition) max_bytes: u64,
    pub(in crate::partition) p99_bytes: Option<f64>,
    pub(in crate::partition) samples: u64,
}

impl Switching {
    /// Switches that belong to this partition.
    pub(in crate::partition) fn own(&self) -> &[u32] {
        &self.own
    }

    /// Adds the present occupancy of every buffer to its histogram. All ports must be committed.
    pub(in crate::partition) fn sample(&mut self) {
        for switch in &mut self.switches {
            switch.occupancy.add(switch.used, 1);
        }
    }

    /// Discards all totals so far, at the end of warm-up. All ports must be committed.
    pub(in crate::partition) fn warm_up<P, N>(&mut self, links: &Links<P, N>, from: Time) {
        self.histograms.iter_mut().for_each(|histograms| histograms.restart(from));
        self.racks.iter_mut().for_each(|racks| racks.warm_up());
        self.returns.iter_mut().for_each(|returns| returns.warm_up());
        for scheduler in self.schedulers.iter_mut().flatten() {
            scheduler.credit_drops = 0;
            scheduler.credit_byte_ps = -scheduler.credits_waited(from, &links.packets.frames);
        }
        for switch in &mut self.switches {
            switch.drops = 0;
            switch.max_used = switch.used;
        }
    }

    /// Totals of a switch.
    pub(in crate::partition) fn totals(&self, switch: u32) -> Totals {
        let Switch { drops, max_used, occupancy, .. } = &self.switches[switch as usize];
        Totals {
            drops: *drops,
            max_bytes: *max_used,
            p99_bytes: occupancy.quantile(0.99),
            samples: occupancy.weight(),
        }
    }

    /// Percentiles of a port's queue in bytes, and of the waits in its queue in nanoseconds.
    /// `departed` packets have left the queue since warm-up. The wait of a packet that finds the
    /// port free is not recorded; it is 0.
    pub(in crate::partition) fn percentiles<P, N>(
        &mut self,
        links: &Links<P, N>,
        index: u32,
        end: Time,
        departed: u64,
    ) -> (Option<f64>, Option<f64>) {
        let Some(histograms) = self.histograms.get_mut(index as usize) else { return (None, None) };
        let port = &links.ports[index as usize];
        histograms.level(end, port.queue_bytes);
        if port.owner & HOST == 0 {
            let recorded = histograms.delay_ns.weight();
            debug_assert!(recorded <= departed, "{recorded} waits of {departed} packets");
            histograms.delay_ns.add(0, departed.saturating_sub(recorded));
        }
        (histograms.bytes.quantile(0.99), histograms.delay_ns.quantile(0.99))
    }

    /// Packets that have left the queue whose measures the port keeps, if it is one for a rack.
    pub(in crate::partition) fn departed_for_rack(&self, index: u32) -> Option<u64> {
        self.racks.as_ref().and_then(|racks| racks.left(index))
    }

    /// Waiting so far of the queued packets, in byte picoseconds.
    pub(in crate::partition) fn queued_byte_ps<P, N>(
        &self,
        links: &Links<P, N>,
        index: u32,
        now: Time,
    ) -> u128 {
        let (port, frames) = (&links.ports[index as usize], &links.packets.frames);
        if port.owner & HOST != 0 {
            return 0;
        }
        let waited = |frame: &Frame| frame.wire_bytes as u128 * now.since(frame.at).as_ps() as u128;
        if let Some(racks) = &self.racks
            && let Some(queued) = racks.queued(index, &links.packets)
        {
            return queued.map(waited).sum();
        }
        match self.scheduler(index) {
            Some(scheduler) => {
                let queued = scheduler.packets(frames).map(|packet| &frames[packet as usize]);
                queued.map(waited).sum()
            }
            None => port.queued(frames).map(waited).sum(),
        }
    }

    /// Queueing of credits at the ports of a switch since warm-up, in byte picoseconds. Credits are
    /// not part of the switch's buffer.
    pub(in crate::partition) fn credit_byte_ps<P, N>(
        &self,
        links: &Links<P, N>,
        switch: u32,
        end: Time,
    ) -> u128 {
        let frames = &links.packets.frames;
        let schedulers = self.ports_of(switch).iter().filter_map(|&port| self.scheduler(port));
        let credits = schedulers.map(|of| of.credit_byte_ps + of.credits_waited(end, frames));
        credits.sum::<i128>().max(0) as u128
    }

    /// Credits that a port has dropped because their queue was full.
    pub(in crate::partition) fn credit_drops(&self, index: u32) -> u64 {
        self.scheduler(index).map_or(0, |scheduler| scheduler.credit_drops)
    }
}
