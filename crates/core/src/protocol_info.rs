//! Protocol information: identity, appearance in plots, and header costs.

/// Marker of a protocol in plots.
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

/// Dash of a protocol's first line in a plot. Together with the marker it distinguishes protocols
/// without colours.
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
    /// Its index among the dashes of plots.
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

/// Protocol information: all properties that are neither code nor parameters.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
    /// Name in scenarios, in kebab case.
    pub name: &'static str,
    /// Name in papers.
    pub title: &'static str,
    /// Version of its rules: raised by each correction that changes its results. A new version of
    /// the engine's semantics resets it to 0.
    pub revision: u32,
    /// Publication.
    pub citation: &'static str,
    /// Function in one sentence.
    pub summary: &'static str,
    /// Colour in plots, `#rrggbb`, from a palette for colour-blind readers.
    pub color: &'static str,
    /// Marker in plots.
    pub marker: Marker,
    /// Dash of its lines in plots. No two protocols share both dash and marker.
    pub dash: Dash,
    /// Telemetry in a data packet.
    pub telemetry_bytes: TelemetryBytes,
    /// Part of it that an acknowledgement echoes.
    pub echo_bytes: TelemetryBytes,
}

/// Size of telemetry in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryBytes {
    /// Bytes on any path.
    pub fixed: u16,
    /// Bytes per switch on the path.
    pub per_hop: u16,
}

impl TelemetryBytes {
    /// No telemetry.
    pub const NONE: TelemetryBytes = TelemetryBytes { fixed: 0, per_hop: 0 };

    /// Bytes on a path over `hops` switches.
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
