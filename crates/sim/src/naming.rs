//! Mapping between global IDs and the local indices of a partition, for ports, hosts and event
//! sources.

/// Local index of an entity that is not in the partition.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Mapping between local indices and global IDs.
pub(crate) trait Naming: Send + Sized {
    /// For a partition that has the entities with the global IDs `names`, of `all` in the fabric.
    fn of(names: Vec<u32>, all: usize) -> Self;
    /// The global ID of the local index `index`.
    fn name(&self, index: u32) -> u32;
    /// The local index of the global ID `name`; [`NOWHERE`] if the partition does not have it.
    fn index_of(&self, name: u32) -> u32;
}

/// Identity mapping: the partition is the whole fabric.
pub(crate) struct Same;

impl Naming for Same {
    fn of(names: Vec<u32>, all: usize) -> Same {
        debug_assert!(names.len() == all && names.is_sorted());
        Same
    }
    #[inline(always)]
    fn name(&self, index: u32) -> u32 {
        index
    }
    #[inline(always)]
    fn index_of(&self, name: u32) -> u32 {
        name
    }
}

/// Mapping by table: the partition is one of several.
pub(crate) struct Table {
    names: Vec<u32>,
    index: Vec<u32>,
}

impl Naming for Table {
    fn of(names: Vec<u32>, all: usize) -> Table {
        let mut index = vec![NOWHERE; all];
        for (number, &name) in (0..).zip(&names) {
            index[name as usize] = number;
        }
        Table { names, index }
    }
    #[inline(always)]
    fn name(&self, index: u32) -> u32 {
        self.names[index as usize]
    }
    #[inline(always)]
    fn index_of(&self, name: u32) -> u32 {
        self.index.get(name as usize).copied().unwrap_or(NOWHERE)
    }
}
