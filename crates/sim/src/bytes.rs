//! Serialisation of the messages between the processes of a run: little-endian, without gaps, with
//! fields in the order in which `bytes!` lists them. All processes run the same build, so the
//! format has no version.

use tidegate_core::fabric::Node;
use tidegate_core::{Body, Frame, Handle, Hop, Rate, Span, Time};

/// A value that can be serialised.
pub(crate) trait Bytes: Sized {
    /// Appends the value to `to`.
    fn put(&self, to: &mut Vec<u8>);
    /// Parses a value and removes it from the front of `from`; `None` if the bytes are malformed.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

/// Implements [`Bytes`] for structs by their fields. A struct with a field that is not listed does
/// not compile.
macro_rules! bytes {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::bytes::Bytes for $type {
            fn put(&self, to: &mut Vec<u8>) {
                let $type { $($field),* } = self;
                $($crate::bytes::Bytes::put($field, to);)*
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                Some($type { $($field: $crate::bytes::Bytes::take(from)?),* })
            }
        }
    )*};
}
pub(crate) use bytes;

bytes! {
    Frame { at, peak_hop_delay, dst, entropy, next, wire_bytes, priority, flags }
    Body { src, message, payload_bytes, transport, is_retransmission, tag, sent_at, words }
    Hop { at, tx_bytes, rate, queue_bytes, port }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Bytes for $type {
            #[inline]
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn take(from: &mut &[u8]) -> Option<$type> {
                let (&first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(first))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, u128);

impl Bytes for f64 {
    fn put(&self, to: &mut Vec<u8>) {
        self.to_bits().put(to);
    }
    fn take(from: &mut &[u8]) -> Option<f64> {
        u64::take(from).map(f64::from_bits)
    }
}

impl Bytes for bool {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        (*self as u8).put(to);
    }
    #[inline]
    fn take(from: &mut &[u8]) -> Option<bool> {
        u8::take(from).filter(|&byte| byte <= 1).map(|byte| byte == 1)
    }
}

impl Bytes for Time {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        self.as_ps().put(to);
    }
    #[inline]
    fn take(from: &mut &[u8]) -> Option<Time> {
        u64::take(from).map(Time::ps)
    }
}

impl Bytes for Span {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        self.as_ps().put(to);
    }
    #[inline]
    fn take(from: &mut &[u8]) -> Option<Span> {
        u64::take(from).map(Span::ps)
    }
}

impl Bytes for Handle {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }
    fn take(from: &mut &[u8]) -> Option<Handle> {
        Bytes::take(from).map(Handle)
    }
}

impl Bytes for Rate {
    fn put(&self, to: &mut Vec<u8>) {
        self.as_bps().put(to);
    }
    fn take(from: &mut &[u8]) -> Option<Rate> {
        u64::take(from).map(Rate::bps)
    }
}

impl Bytes for Node {
    fn put(&self, to: &mut Vec<u8>) {
        let (is_switch, number) = match *self {
            Node::Host(host) => (false, host),
            Node::Switch(switch) => (true, switch),
        };
        is_switch.put(to);
        number.put(to);
    }
    fn take(from: &mut &[u8]) -> Option<Node> {
        let (is_switch, number) = Bytes::take(from)?;
        Some(if is_switch { Node::Switch(number) } else { Node::Host(number) })
    }
}

impl<const N: usize> Bytes for [u64; N] {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|word| word.put(to));
    }
    #[inline]
    fn take(from: &mut &[u8]) -> Option<[u64; N]> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u64::take(from)?;
        }
        Some(words)
    }
}

impl<A: Bytes, B: Bytes> Bytes for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut &[u8]) -> Option<(A, B)> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Bytes> Bytes for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Option<Option<T>> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Bytes> Bytes for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        self.iter().for_each(|value| value.put(to));
    }
    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        let count = u64::take(from)?;
        // The capacity is bounded by the bytes present, whatever the count claims.
        let mut values = Vec::with_capacity(from.len().min(count as usize));
        for _ in 0..count {
            values.push(T::take(from)?);
        }
        Some(values)
    }
}
