//! Turns the list of protocols into modules, a closed enum of transports, access to parameters by
//! name, protocol information and contract tests.

macro_rules! catalog {
    (cc { $($cc:ident :: $Cc:ident),* $(,)? } message { $($msg:ident :: $Msg:ident),* $(,)? }) => {
        /// Congestion controls: "how much may this flow send?"
        pub mod cc { $(pub mod $cc;)* }
        /// Receiver-driven transports: "which packet next?"
        pub mod message { $(pub mod $msg;)* }

        impl Protocol {
            /// The kind of the protocol: `"congestion control"` or `"receiver-driven"`.
            pub const fn family(self) -> &'static str {
                match self {
                    $(Protocol::$Cc => "congestion control",)*
                    $(Protocol::$Msg => "receiver-driven",)*
                }
            }
        }

        catalog!(@all
            $($Cc, $crate::windowed::Windowed<$crate::cc::$cc::$Cc>;)*
            $($Msg, $crate::message::$msg::$Msg;)*);

        #[cfg(test)]
        mod contract_of_every_entry {
            $(mod $cc { $crate::contract::congestion_control!($crate::cc::$cc::$Cc); })*
        }
    };
    (@all $($Name:ident, $Type:ty;)*) => {
        use alloc::boxed::Box;
        use alloc::string::String;
        use alloc::vec::Vec;
        use tidegate_core::params::{Needs, Params, SetError, Table, Value};
        use tidegate_core::wire::{self, Carried, Format, Header, HeaderError};
        use tidegate_core::workload::SizeMix;
        use tidegate_core::{
            Application, Body, Endpoint, FabricProperties, FabricRequirements, Frame, Handle,
            HopTrace, HostContext, Limits, Message, OperatingPoint, PacketMut, PacketSizes, Path,
            PathOracle, ProtocolInfo, Reply, Time, Transmit, Transport,
        };

        /// A protocol of the catalog.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Protocol { $($Name,)* }

        impl Protocol {
            /// Every protocol, in the order of the catalog.
            pub const ALL: &'static [Protocol] = &[$(Protocol::$Name,)*];

            /// Its name, title, citation and appearance.
            pub const fn info(self) -> &'static ProtocolInfo {
                match self { $(Protocol::$Name => &<$Type as Endpoint>::INFO,)* }
            }
            /// The protocol of that name.
            pub fn named(name: &str) -> Option<Protocol> {
                Protocol::ALL.iter().copied().find(|protocol| protocol.info().name == name)
            }
            /// The table of its parameters.
            pub fn table(self) -> Table {
                match self {
                    $(Protocol::$Name => <<$Type as Endpoint>::Params as Params>::table(),)*
                }
            }
            /// The format of its headers; protocols on the same transport share it.
            pub const fn headers(self) -> &'static Format {
                match self {
                    $(Protocol::$Name => {
                        const { &<<$Type as Endpoint>::Header as Header>::FORMAT }
                    })*
                }
            }
            /// Writes the headers of a packet to the start of `out`. Returns their length.
            ///
            /// # Errors
            /// If there is no room, or the packet is not of this protocol.
            pub fn emit(
                self,
                frame: &Frame,
                body: &Body,
                hops: &HopTrace,
                out: &mut [u8],
            ) -> Result<usize, HeaderError> {
                match self {
                    $(Protocol::$Name => {
                        wire::emit::<<$Type as Endpoint>::Header>(frame, body, hops, out)
                    })*
                }
            }
            /// Reads a datagram into `packet`, except for the fields of the IP header. Returns the
            /// length of the headers. The payload follows them.
            ///
            /// # Errors
            /// If the datagram does not start with headers of this protocol.
            pub fn parse(
                self,
                datagram: &[u8],
                packet: PacketMut<'_>,
            ) -> Result<usize, HeaderError> {
                match self {
                    $(Protocol::$Name => {
                        wire::parse::<<$Type as Endpoint>::Header>(datagram, packet)
                    })*
                }
            }
            /// Byte offset of the packet's payload in its message; `None` unless it is data.
            /// Drivers that send real payload bytes need it.
            pub fn offset(self, body: &Body) -> Option<u64> {
                match self {
                    $(Protocol::$Name => <$Type as Endpoint>::Header::read(body)?.offset(),)*
                }
            }
            /// Its default parameters.
            pub fn stack(self) -> Stack {
                match self { $(Protocol::$Name => Stack::$Name(Box::default()),)* }
            }
        }

        /// A protocol and its parameters: all that a host needs to make a transport.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Stack { $($Name(Box<<$Type as Endpoint>::Params>),)* }

        impl Stack {
            /// The protocol.
            pub const fn protocol(&self) -> Protocol {
                match self { $(Stack::$Name(_) => Protocol::$Name,)* }
            }
            /// Sets a parameter.
            ///
            /// # Errors
            /// If the name is unknown, the value has another kind, or it is out of range.
            pub fn set(&mut self, name: &str, value: Value) -> Result<(), SetError> {
                match self {
                    $(Stack::$Name(params) => Params::set(&mut **params, name, value),)*
                }
            }
            /// Every parameter and its value.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self { $(Stack::$Name(params) => Params::values(&**params),)* }
            }
            /// Reason why the values contradict each other, if they do.
            pub fn conflict(&self) -> Option<String> {
                match self { $(Stack::$Name(params) => Params::conflict(&**params),)* }
            }
            /// The parameters that have no effect beside these values, each with a condition that
            /// does not hold.
            pub fn without_effect(&self) -> Vec<(&'static str, Needs)> {
                match self { $(Stack::$Name(params) => Params::without_effect(&**params),)* }
            }
            /// Requirements of the protocol to the fabric.
            pub fn requirements(&self, fabric: &FabricProperties) -> FabricRequirements {
                match self { $(Stack::$Name(params) =>
                    <$Type as Endpoint>::requirements(params, fabric),)* }
            }
            /// Operating point of a flow that sends `rate_bps` on this path, with a warning outside
            /// the design range. The path's full packet excludes telemetry.
            pub fn operating_point(&self, path: &Path, rate_bps: f64) -> OperatingPoint {
                match self { $(Stack::$Name(params) =>
                    <$Type as Endpoint>::operating_point(params, path, rate_bps),)* }
            }
            /// Sizes of the protocol's packets on the wire.
            pub fn sizes(&self) -> PacketSizes {
                match self { $(Stack::$Name(params) => <$Type as Endpoint>::sizes(params),)* }
            }
            /// Whether the packets of a message take several paths by the protocol's own choice.
            pub fn takes_many_paths(&self) -> bool {
                match self { $(Stack::$Name(params) =>
                    <$Type as Endpoint>::takes_many_paths(params),)* }
            }
            /// Why the weights of messages have no effect, if they have none.
            pub fn ignores_weights(&self) -> Option<&'static str> {
                match self { $(Stack::$Name(params) =>
                    <$Type as Endpoint>::ignores_weights(params),)* }
            }
            /// Bytes on the wire of a full data packet and of its acknowledgement on a path with
            /// this number of switches.
            pub fn full_packet(&self, mtu: u32, hops: u32) -> (u32, u32) {
                let (sizes, info) = (self.sizes(), self.protocol().info());
                let control = sizes.control_bytes + info.echo(hops);
                (sizes.data(mtu + info.telemetry(hops)), control)
            }
            /// Bytes on the wire of the largest data packet on a path with this number of switches.
            pub fn largest_data(&self, mtu: u32, hops: u32) -> u32 {
                let more = match self {
                    $(Stack::$Name(_) => <$Type as Endpoint>::MORE_HEADER_BYTES,)*
                };
                self.full_packet(mtu + more, hops).0
            }
            /// Fits the parameters to the message sizes that hosts will send. Returns a notice for
            /// the user, if any.
            pub fn fit(&mut self, fabric: &FabricProperties, sizes: &SizeMix) -> Option<String> {
                match self { $(Stack::$Name(params) =>
                    <$Type as Endpoint>::fit(params, fabric, sizes),)* }
            }
            /// The transport of one host.
            pub fn transport(&self, host: &HostContext) -> AnyTransport {
                match self { $(Stack::$Name(params) =>
                    AnyTransport::$Name(<$Type as Endpoint>::new(params, host)),)* }
            }
        }

        /// A transport of the catalog. Closed, so that dispatch is a jump and state is stored
        /// inline.
        #[allow(missing_docs, clippy::large_enum_variant)]
        pub enum AnyTransport { $($Name($Type),)* }

        impl Transport for AnyTransport {
            fn submit(
                &mut self,
                now: Time,
                message: Message,
                paths: &dyn PathOracle,
            ) -> Handle {
                match self { $(AnyTransport::$Name(t) => t.submit(now, message, paths),)* }
            }
            fn stop(&mut self, now: Time, handle: Handle) {
                match self { $(AnyTransport::$Name(t) => t.stop(now, handle),)* }
            }
            fn forget(&mut self, now: Time, peer: u32) {
                match self { $(AnyTransport::$Name(t) => t.forget(now, peer),)* }
            }
            #[inline]
            fn receive<A: Application>(
                &mut self,
                now: Time,
                packet: PacketMut<'_>,
                app: &mut A,
            ) -> Reply {
                match self { $(AnyTransport::$Name(t) => t.receive(now, packet, app),)* }
            }
            #[inline]
            fn transmit(&mut self, now: Time, packet: PacketMut<'_>) -> Transmit {
                match self { $(AnyTransport::$Name(t) => t.transmit(now, packet),)* }
            }
            fn transmit_above(
                &mut self,
                priority: u8,
                now: Time,
                packet: PacketMut<'_>,
            ) -> Transmit {
                match self {
                    $(AnyTransport::$Name(t) => t.transmit_above(priority, now, packet),)*
                }
            }
            fn transmit_batch<'a>(
                &mut self,
                now: Time,
                packets: impl Iterator<Item = PacketMut<'a>>,
            ) -> usize {
                match self { $(AnyTransport::$Name(t) => t.transmit_batch(now, packets),)* }
            }
            fn on_deadline<A: Application>(&mut self, now: Time, app: &mut A) {
                match self { $(AnyTransport::$Name(t) => t.on_deadline(now, app),)* }
            }
            #[inline]
            fn deadline(&self) -> Time {
                match self { $(AnyTransport::$Name(t) => t.deadline(),)* }
            }
            #[inline]
            fn timer(&self) -> Time {
                match self { $(AnyTransport::$Name(t) => t.timer(),)* }
            }
            fn backlog_bytes(&self) -> u64 {
                match self { $(AnyTransport::$Name(t) => t.backlog_bytes(),)* }
            }
            fn limits(&self, handle: Handle) -> Option<Limits> {
                match self { $(AnyTransport::$Name(t) => t.limits(handle),)* }
            }
        }
    };
}
