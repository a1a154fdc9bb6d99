//! Sets of dimensions that must be cut alike: a union-find with the sizes of its members.

/// Disjoint sets of dimensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Union {
    parent: Vec<u32>,
    /// Of each root: the greatest number that divides the sizes of all members.
    divisor: Vec<u64>,
}

impl Union {
    /// Adds a dimension of that size.
    pub(super) fn add(&mut self, size: u64) -> u32 {
        let id = self.parent.len() as u32;
        self.parent.push(id);
        self.divisor.push(size);
        id
    }

    /// The representative of a dimension's set.
    pub(super) fn root(&self, mut id: u32) -> u32 {
        while let Some(&parent) = self.parent.get(id as usize)
            && parent != id
        {
            id = parent;
        }
        id
    }

    /// What divides the sizes of all dimensions of a set.
    pub(super) fn divisor(&self, id: u32) -> u64 {
        let root = self.root(id);
        self.divisor.get(root as usize).copied().unwrap_or(1)
    }

    /// Joins two sets.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let divisor = gcd(self.divisor(a), self.divisor(b));
        // The older one stays: roots do not depend on the order of joining.
        let (keep, lose) = (a.min(b), a.max(b));
        if let Some(parent) = self.parent.get_mut(lose as usize) {
            *parent = keep;
        }
        if let Some(kept) = self.divisor.get_mut(keep as usize) {
            *kept = divisor;
        }
    }

    /// Points every dimension at its root, so that looking one up is one step.
    pub(super) fn flatten(&mut self) {
        for id in 0..self.parent.len() as u32 {
            let root = self.root(id);
            if let Some(parent) = self.parent.get_mut(id as usize) {
                *parent = root;
            }
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
