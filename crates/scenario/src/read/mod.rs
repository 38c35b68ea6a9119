//! Reading: turns TOML text, options and presets into a tree of typed values that record their
//! places.

pub(crate) mod cell;
pub(crate) mod check;
pub(crate) mod keys;
pub(crate) mod quantity;
pub(crate) mod table;
pub(crate) mod tree;
