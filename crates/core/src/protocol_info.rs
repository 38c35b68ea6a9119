//! A protocol's identity: who it is, how it is drawn, and what its headers cost.

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
    /// ✖
    X,
}

/// The dash of a protocol's first line in a plot. With the marker it tells protocols apart where
/// there are no colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    /// ———
    Solid,
    /// – –
    Dashed,
    /// · · ·
    Dotted,
}

impl Dash {
    /// Its place among the dashes of plots.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name that plotting libraries use.
    pub const fn name(self) -> &'static str {
        match self {
            Dash::Solid => "solid",
            Dash::Dashed => "dash",
            Dash::Dotted => "dot",
        }
    }
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
            Marker::X => "x",
        }
    }
}

/// A protocol's card: everything about it that is neither code nor a parameter.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
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
    /// Dash of its lines in plots; no other protocol has both this one and the marker.
    pub dash: Dash,
    /// Of telemetry in a data packet.
    pub telemetry_bytes: TelemetryBytes,
    /// Of it that an acknowledgement echoes.
    pub echo_bytes: TelemetryBytes,
}

/// Bytes of telemetry in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryBytes {
    /// On any path.
    pub fixed: u16,
    /// For every switch on it.
    pub per_hop: u16,
}

impl TelemetryBytes {
    /// There is none.
    pub const NONE: TelemetryBytes = TelemetryBytes { fixed: 0, per_hop: 0 };

    /// On a path over `hops` switches.
    const fn over(self, hops: u32) -> u32 {
        self.fixed as u32 + self.per_hop as u32 * hops
    }
}

impl ProtocolInfo {
    /// Telemetry bytes of a data packet over `hops` switches.
    pub const fn telemetry(&self, hops: u32) -> u32 {
        self.telemetry_bytes.over(hops)
    }
    /// Echoed bytes in an acknowledgement of a packet that crossed `hops` switches.
    pub const fn echo(&self, hops: u32) -> u32 {
        self.echo_bytes.over(hops)
    }
}
