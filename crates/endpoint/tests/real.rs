//! Tests on real sockets, in one test program.

mod host;
mod key_value;
