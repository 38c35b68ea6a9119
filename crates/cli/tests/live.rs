//! Tests of live UDP mode. They are apart from the others, because they depend on real time.

mod common;

mod net;
mod switch;
mod switch_interfaces;
mod testbed;
