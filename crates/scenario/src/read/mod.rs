//! Reading: TOML text, options and presets in; a tree of typed values out, each of which knows its
//! place.

pub(crate) mod cell;
pub(crate) mod check;
pub(crate) mod keys;
pub(crate) mod quantity;
pub(crate) mod table;
pub(crate) mod tree;
