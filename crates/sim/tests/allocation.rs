//! The per-packet path allocates nothing once buffers have grown.
#![allow(unsafe_code, reason = "a counting allocator needs it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::common::*;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Ecn, MarkAt};
use tidegate_core::workload::{Pattern, Sizes, Traffic};
use tidegate_core::{Message, Rate, Span, Time};
use tidegate_sim::simulation::unobserved;

struct Counting;

thread_local! {
    /// Allocations of this thread: other tests run in the same process.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn steady_state_allocates_nothing_per_packet() {
    no_protocol_allocates_per_packet(false);
}

#[test]
fn pauses_allocate_nothing_per_packet() {
    no_protocol_allocates_per_packet(true);
}

fn no_protocol_allocates_per_packet(pauses: bool) {
    for &protocol in Protocol::ALL {
        let fabric = leaf_spine(4, 4, 2, Rate::gbps(100), Rate::gbps(100), Span::ns(600), 1000);
        let mut setup = setup(fabric, protocol.stack(), Vec::new(), Time::ms(4));
        setup.workload.traffic.push(Traffic {
            pattern: Pattern::Permutation,
            sizes: Sizes::Fixed(Message::UNLIMITED),
            stack: 0,
            label: 0,
            start: Time::ZERO,
            stop: Time::NEVER,
        });
        for switch in &mut setup.fabric.switches {
            switch.ecn = Some(Ecn {
                min_bytes: 80e3,
                max_bytes: 80e3,
                max_probability: 1.0,
                at: MarkAt::Enqueue,
                core_only: false,
                per: None,
            });
        }
        if pauses {
            lossless(&mut setup, 250_000);
        } else {
            // Without trimming, queues of these protocols grow, because the core is oversubscribed.
            let needs = requirements_of(&setup);
            for switch in &mut setup.fabric.switches {
                switch.credit_queue = needs.credit_queue;
                switch.trimming = needs.trimming.map(|rule| rule.resolved(100e3));
            }
        }
        let mut engine = unobserved(setup, 1).unwrap();
        while !engine.advance_some(Time::ms(2), u64::MAX).unwrap() {}
        let (before, hops) = (ALLOCATIONS.get(), engine.packet_hops());
        while !engine.advance_some(Time::ms(4), u64::MAX).unwrap() {}
        let (allocations, hops) = (ALLOCATIONS.get() - before, engine.packet_hops() - hops);
        assert!(hops > 50_000, "{}: {hops} packet-hops", protocol.info().name);
        // A buffer of each of the 16 hosts may still double, and 30 deadlock searches record paused
        // ports. An allocation per packet would show as thousands.
        let most = if pauses { 16 + 30 * 8 } else { 16 };
        assert!(
            allocations <= most,
            "{}: {allocations} allocations in {hops} packet-hops",
            protocol.info().name
        );
    }
}
