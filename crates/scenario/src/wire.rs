//! Bytes on the wire of generated messages.

use tidegate_algos::Stack;
use tidegate_core::workload::{SizeMix, Sizes};

/// Bytes on the wire per byte of payload by the mean size, preamble and gap included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wire {
    /// Of data packets.
    pub(crate) data: f64,
    /// Of one control packet for each data packet.
    pub(crate) control: f64,
}

impl Wire {
    /// Messages with these sizes, each of which is divided into `parts`, on paths with each of
    /// these numbers of switches. Packets have at most `mtu` bytes of payload.
    pub(crate) fn on_paths<const PATHS: usize>(
        sizes: &Sizes,
        parts: u64,
        stack: &Stack,
        mtu: u32,
        hops: [u32; PATHS],
    ) -> [Wire; PATHS] {
        let mix = SizeMix::of(sizes);
        // Loads count messages by this mean, which a scenario can set apart from the sizes.
        let mean_bytes = sizes.mean_bytes() / parts as f64;
        hops.map(|hops| Wire::of((&mix, mean_bytes), parts, stack, (mtu, hops)))
    }

    fn of(
        (mix, mean_bytes): (&SizeMix, f64),
        parts: u64,
        stack: &Stack,
        (mtu, hops): (u32, u32),
    ) -> Wire {
        let [mut messages, mut data, mut control] = [0.0; 3];
        let full = stack.full_packet(mtu, hops).0;
        for &(bytes, rate) in &mix.points {
            let bytes = (bytes / parts).max(1);
            let packets = bytes.div_ceil(u64::from(mtu));
            let last_bytes = bytes - (packets - 1) * u64::from(mtu);
            let (last, answer) = stack.full_packet(last_bytes as u32, hops);
            messages += rate;
            data += rate * ((packets - 1) as f64 * f64::from(full) + f64::from(last));
            control += rate * packets as f64 * f64::from(answer);
        }
        let mut payload = messages * mean_bytes;
        // Unlimited messages consist of full packets.
        if messages == 0.0 {
            let (full, answer) = stack.full_packet(mtu, hops);
            [payload, data, control] = [mtu, full, answer].map(f64::from);
        }
        Wire { data: data / payload, control: control / payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::PacketSizes;

    #[test]
    fn wire_bytes_include_headers_and_padding() {
        let text = "duration = '1ms'\nfabric = { kind = 'star', hosts = 2 }\n\
                    transport = { protocol = 'swift' }\nflows = [{ src = 'h0', dst = 'h1' }]";
        let plan = crate::load(text, "x.toml", &[]).unwrap();
        let stack = &plan.stacks[0];
        let PacketSizes { header_bytes, control_bytes, least_bytes } = stack.sizes();
        let info = stack.protocol().info();
        let [header, control, least] =
            [header_bytes + info.telemetry(1), control_bytes + info.echo(1), least_bytes]
                .map(f64::from);
        let of = |bytes, parts| {
            let [wire] = Wire::on_paths(&Sizes::Fixed(bytes), parts, stack, 1_500, [1]);
            wire
        };
        let seven = Wire { data: 1.0 + 7.0 * header / 1e4, control: 7.0 * control / 1e4 };
        assert_eq!(of(10_000, 1), seven);
        assert_eq!(of(20_000, 2), seven);
        assert_eq!(of(1, 1), Wire { data: least.max(1.0 + header), control });
        let full = Wire { data: (1_500.0 + header) / 1_500.0, control: control / 1_500.0 };
        assert_eq!(of(u64::MAX, 1), full);
    }
}
