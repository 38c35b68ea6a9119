//! The partitions of a process among those of all processes.

/// Position of this process's partitions among all partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessPartitions {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// Partitions per rank.
    pub(crate) partitions: usize,
}

impl ProcessPartitions {
    /// All partitions are in this process.
    pub(crate) fn alone(partitions: usize) -> ProcessPartitions {
        ProcessPartitions { rank: 0, ranks: 1, partitions }
    }

    /// Number of the first partition of this process.
    pub(crate) fn first(&self) -> u32 {
        (self.rank * self.partitions) as u32
    }

    /// Index of a partition in this process; at least `partitions` if it belongs to another
    /// process.
    pub(crate) fn index_of(&self, partition: u32) -> usize {
        (partition as usize).wrapping_sub(self.first() as usize)
    }

    /// Numbers of the partitions of `rank` among all partitions.
    pub(crate) fn partitions_of(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.partitions..(rank + 1) * self.partitions
    }

    /// All other ranks.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.rank;
        (0..self.ranks).filter(move |&rank| rank != own)
    }
}
