//! A protocol's identity: who it is, how it is drawn, and what it needs of the fabric.

/// The shape that stands for a protocol in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ◆
    Diamond,
    /// ▲
    TriangleUp,
    /// ▼
    TriangleDown,
    /// ✚
    Cross,
    /// ★
    Star,
}

impl Marker {
    /// The name that plotting libraries use.
    pub const fn name(self) -> &'static str {
        match self {
            Marker::Circle => "circle",
            Marker::Square => "square",
            Marker::Diamond => "diamond",
            Marker::TriangleUp => "triangle-up",
            Marker::TriangleDown => "triangle-down",
            Marker::Cross => "cross",
            Marker::Star => "star",
        }
    }
}

/// A set of things a protocol can need of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u16);

/// One thing a protocol can need of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Need {
    /// Switches mark packets by queue length.
    Ecn = 1,
    /// Switches keep the largest queueing delay in the packet.
    PeakHopDelay = 2,
    /// Switches append a record of their own.
    HopRecords = 4,
    /// More than one strict priority.
    Priorities = 8,
    /// Switches queue and shape credits apart.
    CreditShaping = 16,
    /// Every packet takes a path of its own.
    Spraying = 32,
    /// Switches mark packets by queue length, at ports that lead to other switches only.
    CoreEcn = 64,
}

impl Need {
    /// Every need, in display order.
    pub const ALL: [Need; 7] = [
        Need::Ecn,
        Need::CoreEcn,
        Need::PeakHopDelay,
        Need::HopRecords,
        Need::Priorities,
        Need::CreditShaping,
        Need::Spraying,
    ];

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Need::Ecn => "ECN",
            Need::CoreEcn => "ECN between switches",
            Need::PeakHopDelay => "peak hop delay",
            Need::HopRecords => "per-hop records",
            Need::Priorities => "priorities",
            Need::CreditShaping => "credit shaping",
            Need::Spraying => "spraying",
        }
    }
}

impl Needs {
    /// Nothing: a FIFO will do.
    pub const NONE: Needs = Needs(0);
    /// This set and `need`.
    pub const fn and(self, need: Need) -> Needs {
        Needs(self.0 | need as u16)
    }
    /// Whether `need` is in the set.
    pub const fn has(self, need: Need) -> bool {
        self.0 & need as u16 != 0
    }
    /// The members, in display order.
    pub fn iter(self) -> impl Iterator<Item = Need> {
        Need::ALL.into_iter().filter(move |&need| self.has(need))
    }
}

/// A protocol's card: everything about it that is neither code nor a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// As scenarios name it, in kebab case.
    pub name: &'static str,
    /// As papers write it.
    pub title: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Colour in plots, `#rrggbb`, from a palette that colour-blind readers can tell apart.
    pub color: &'static str,
    /// Marker in plots.
    pub marker: Marker,
    /// What it needs of the fabric.
    pub needs: Needs,
    /// Bytes of telemetry in a data packet: a fixed part and one for every switch on the path.
    pub telemetry_bytes: (u16, u16),
    /// Bytes of it that an acknowledgement echoes: a fixed part and one for every switch on the
    /// path.
    pub echo_bytes: (u16, u16),
}

impl Card {
    /// Telemetry bytes of a data packet over `hops` switches.
    pub const fn telemetry(&self, hops: u32) -> u32 {
        self.telemetry_bytes.0 as u32 + self.telemetry_bytes.1 as u32 * hops
    }
    /// Echoed bytes in an acknowledgement of a packet that crossed `hops` switches.
    pub const fn echo(&self, hops: u32) -> u32 {
        self.echo_bytes.0 as u32 + self.echo_bytes.1 as u32 * hops
    }
}
