//! Tests on real sockets, in one test program.

mod documented;
mod host;
mod key_value;
