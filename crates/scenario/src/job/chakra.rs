//! Messages of Chakra execution traces (`mlcommons/chakra`, commit 21585d8,
//! `schema/protobuf/et_def.proto`), as far as the reader uses them. A file has a [`Metadata`] and
//! then a [`Node`] for each operation of its rank; the length of each message precedes it as a
//! varint. Fields that are not listed here are skipped.

use std::collections::BTreeMap;
use std::fmt;

/// Ranks of each process group, by the value of the attribute `pg_name` of collectives.
pub type Groups = BTreeMap<String, Vec<u32>>;

/// First message of a file (`GlobalMetadata`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// Version of the schema.
    #[prost(string, tag = "1")]
    pub version: String,
}

/// An operation of a rank.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    /// Identifies the node in its file.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Kind.
    #[prost(enumeration = "Kind", tag = "3")]
    pub kind: i32,
    /// IDs of nodes that must be complete before.
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    /// IDs of nodes that must be complete before.
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    /// Duration in microseconds.
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    /// Attributes.
    #[prost(message, repeated, tag = "10")]
    pub attr: Vec<Attribute>,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value, if it has one of the types of [`Value`].
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub value: Option<Value>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
#[allow(missing_docs)]
pub enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(Bools),
    #[prost(string, tag = "29")]
    Text(String),
}

/// A list of booleans.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Bools {
    /// Its elements.
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Kind {
    Invalid = 0,
    Metadata = 1,
    MemoryLoad = 2,
    MemoryStore = 3,
    Compute = 4,
    Send = 5,
    Receive = 6,
    Collective = 7,
}

/// Operation of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Operation {
    AllReduce = 0,
    Reduce = 1,
    AllGather = 2,
    Gather = 3,
    Scatter = 4,
    Broadcast = 5,
    AllToAll = 6,
    ReduceScatter = 7,
    ReduceScatterBlock = 8,
    Barrier = 9,
}

impl Value {
    /// The value of an integer.
    fn integer(&self) -> Option<i128> {
        match *self {
            Value::Int32(x) | Value::Sint32(x) | Value::Sfixed32(x) => Some(x.into()),
            Value::Int64(x) | Value::Sint64(x) | Value::Sfixed64(x) => Some(x.into()),
            Value::Uint32(x) | Value::Fixed32(x) => Some(x.into()),
            Value::Uint64(x) | Value::Fixed64(x) => Some(x.into()),
            Value::Bool(_) | Value::Bools(_) | Value::Text(_) => None,
        }
    }
}

impl Attribute {
    /// The value of a number that is not negative.
    pub fn whole(&self) -> Option<u64> {
        self.value.as_ref()?.integer()?.try_into().ok()
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.value {
            Some(Value::Bool(value)) => write!(f, "{name} = {value}"),
            Some(Value::Bools(of)) => write!(f, "{name} = {:?}", of.values),
            Some(Value::Text(text)) => write!(f, "{name} = {text:?}"),
            Some(value) => write!(f, "{name} = {}", value.integer().unwrap_or_default()),
            None => write!(f, "{name} with a value of another type"),
        }
    }
}
