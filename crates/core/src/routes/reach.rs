//! The largest base RTT of a fabric.

use crate::Span;

/// The largest base RTT of any pair of hosts, and the longest path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Largest base RTT: a full packet forward and a minimum frame back through an empty network,
    /// on the quickest of the paths with the fewest switches.
    pub base_rtt: Span,
    /// Largest round trip of minimum frames on the same paths.
    pub control_rtt: Span,
    /// Largest difference between the base RTTs of two paths of a pair, both with the fewest
    /// switches.
    pub spread: Span,
    /// Most switches on the path of any pair.
    pub most_switches: u32,
}

impl Reach {
    pub(super) fn widen(&mut self, trip: Trip, switches: u32) {
        if trip.base > Span::ZERO {
            self.base_rtt = self.base_rtt.max(trip.base);
            self.control_rtt = self.control_rtt.max(trip.control);
            self.most_switches = self.most_switches.max(switches);
        }
    }
}

/// Round trip times over the same links. Of trips with equal base RTTs, the one with the shorter
/// control RTT is quicker, so that costs do not depend on the numbers of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trip {
    /// A full packet forward and a minimum frame back.
    pub(super) base: Span,
    /// A minimum frame in each direction.
    pub(super) control: Span,
}

impl Trip {
    pub(super) const FOREVER: Trip = Trip { base: Span::FOREVER, control: Span::FOREVER };

    pub(super) fn plus(self, other: Trip) -> Trip {
        Trip { base: self.base.plus(other.base), control: self.control.plus(other.control) }
    }
}

/// Round trips of the slowest host links of a class.
#[derive(Default)]
pub(super) struct Slowest {
    pub(super) first: Trip,
    /// Two hosts of one leaf; zero if no leaf has two.
    pub(super) one_leaf: Trip,
    /// Hosts of two different leaves.
    pub(super) two_leaves: Trip,
}
