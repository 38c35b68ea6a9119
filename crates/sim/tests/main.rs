//! The tests of the engine in one program: engines of all stacks are compiled once, not once a
//! file.
mod common;

mod circuits;
mod dcpim;
mod disciplines;
mod engine;
mod expresspass;
mod expresspass_crowds;
mod faults;
mod fluid;
mod homa;
mod ideal;
mod lone_flow;
mod loops;
mod lossless;
mod measures;
mod nics;
mod parts;
mod ranks;
mod rates;
mod sird;
mod sird_links;
mod stack_time;
mod symmetric;
mod theory;
mod windows;
