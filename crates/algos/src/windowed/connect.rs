//! Choice, start and restart of connections.

use alloc::boxed::Box;

use super::counts::counted;
use super::plb::Plb;
use super::sender::Sender;
use super::{ConnectionParams, PlbRule, Windowed, WindowedParams};
use crate::kit::departures::Departures;
use crate::multipath::{Multipath, PathRule};
use tidegate_core::{
    CongestionControl, ConnectionPolicy, Domain, HostContext, Message, MultipathRule, Path,
    PathOracle, RecoveryRule, Rng, Time,
};

impl<C: CongestionControl> Windowed<C> {
    /// The path with this protocol's headers and telemetry in a full packet.
    pub(super) fn on_wire(params: &WindowedParams<C>, mut path: Path) -> Path {
        let payload = path.mtu + C::INFO.telemetry(path.hops);
        path.full_wire_bytes = params.connection.sizes().data(payload);
        path
    }

    /// Returns the connection for `message` by the policy; opens one if there is none.
    pub(super) fn connection_for(
        &mut self,
        now: Time,
        message: &Message,
        paths: &dyn PathOracle,
    ) -> u32 {
        let policy =
            if message.dedicated { ConnectionPolicy::PerMessage } else { self.host.connections };
        let peer = self.peers.entry(message.dst);
        let size = match policy {
            ConnectionPolicy::PerMessage | ConnectionPolicy::ShortestFirst => {
                let Some(connection) = peer.idle.pop() else {
                    return self.connect(now, message.dst, true, paths);
                };
                let seed = self.restart(now, connection);
                let (plb, multipath) = (self.path_memory(seed), self.multipath(seed));
                let sender = &mut self.senders[connection as usize];
                sender.reuse(seed);
                (sender.plb, sender.multipath) = (plb, multipath);
                return connection;
            }
            ConnectionPolicy::PerPair => 1,
            ConnectionPolicy::Pool(size) => size as usize,
        };
        // An idle connection, otherwise a new one, otherwise the least loaded; among equals the
        // oldest.
        match peer.pool.first() {
            Some((messages, connection)) if messages == 0 || peer.pool.len() >= size => connection,
            _ => self.connect(now, message.dst, false, paths),
        }
    }

    /// Updates the number of messages in flight of a connection in its pool.
    pub(super) fn update_load(&mut self, connection: u32) {
        let sender = &self.senders[connection as usize];
        if !sender.single_use {
            let pool = &mut self.peers.entry(sender.dst).pool;
            pool.set(&mut self.positions, connection, sender.queue.len);
        }
    }

    pub(super) fn path_memory(&self, seed: u64) -> Option<Box<Plb>> {
        (self.params.connection.plb != PlbRule::Off).then(|| Box::new(Plb::new(seed)))
    }

    pub(super) fn multipath(&self, seed: u64) -> Option<Box<Multipath>> {
        let ConnectionParams { multipath, paths, flowlet_gap, .. } = self.params.connection;
        // Sprayed packets do not keep their entropies.
        let rule = if self.host.spraying { MultipathRule::Off } else { multipath };
        let rule = PathRule { rule, paths: paths as u32, flowlet_gap };
        Multipath::new(rule, seed).map(Box::new)
    }

    /// Restarts a connection's control and returns its seed.
    pub(super) fn restart(&mut self, now: Time, connection: u32) -> u64 {
        let sender = &mut self.senders[connection as usize];
        let seed = next_seed(&self.host, sender.dst, sender.lane, sender.uses);
        sender.restart(C::start(&self.params.control, &sender.cold.path, now, seed));
        seed
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        dst: u32,
        single_use: bool,
        paths: &dyn PathOracle,
    ) -> u32 {
        let path = Self::on_wire(&self.params, paths.path(self.host.host, dst));
        let peer = self.peers.entry(dst);
        let lane = peer.lanes;
        peer.lanes += 1;
        let seed = next_seed(&self.host, dst, lane, 0);
        let params = &self.params.connection;
        let cc = C::start(&self.params.control, &counted(params, &path), now, seed);
        let mut sender = Sender::new(cc, dst, lane, seed, single_use, path, params);
        sender.plb = self.path_memory(seed);
        sender.multipath = self.multipath(seed);
        sender.departures =
            (params.recovery == RecoveryRule::Trimmed).then(|| Box::new(Departures::default()));
        if let Some(connection) = self.closed.pop() {
            self.senders[connection as usize] = sender;
            return connection;
        }
        self.senders.push(sender);
        self.senders.len() as u32 - 1
    }
}

/// Seed of a connection's control after this number of starts.
fn next_seed(host: &HostContext, dst: u32, lane: u32, uses: u32) -> u64 {
    let pair = (host.host as u64) << 32 | dst as u64;
    // The low 16 bits of the lane have fixed positions, the others are spread.
    let lane = (lane as u64) << 48 ^ (lane as u64 >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Rng::stream(host.seed, Domain::Entropy, pair ^ lane ^ ((uses as u64) << 16)).bits()
}
