//! What a partition calls its ports, hosts and sources of events, and what the whole fabric calls
//! them.

/// What is not in the partition.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Numbers in a partition and in the whole.
pub(crate) trait Naming: Send + Sized {
    /// Of a partition that has what bears these names, of `all` that the whole has.
    fn of(names: Vec<u32>, all: usize) -> Self;
    /// In the whole.
    fn name(&self, here: u32) -> u32;
    /// In the partition; [`NOWHERE`], where the two differ, of what is not there.
    fn here(&self, name: u32) -> u32;
}

/// The part is the whole.
pub(crate) struct Same;

impl Naming for Same {
    fn of(names: Vec<u32>, all: usize) -> Same {
        debug_assert!(names.len() == all && names.is_sorted());
        Same
    }
    #[inline(always)]
    fn name(&self, here: u32) -> u32 {
        here
    }
    #[inline(always)]
    fn here(&self, name: u32) -> u32 {
        name
    }
}

/// The part is one of several.
pub(crate) struct Table {
    names: Vec<u32>,
    here: Vec<u32>,
}

impl Naming for Table {
    fn of(names: Vec<u32>, all: usize) -> Table {
        let mut here = vec![NOWHERE; all];
        for (number, &name) in (0..).zip(&names) {
            here[name as usize] = number;
        }
        Table { names, here }
    }
    #[inline(always)]
    fn name(&self, here: u32) -> u32 {
        self.names[here as usize]
    }
    #[inline(always)]
    fn here(&self, name: u32) -> u32 {
        self.here.get(name as usize).copied().unwrap_or(NOWHERE)
    }
}
