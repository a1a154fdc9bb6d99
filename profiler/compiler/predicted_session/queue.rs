//! Transfers in flight: what runs beside the core's own operations.

use std::collections::VecDeque;

use crate::program::OpId;

/// What a transfer occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// Copies from and to HBM.
    Hbm,
    /// Collectives.
    Ici,
    /// Copies from and to the host's memory.
    Host,
    /// Work that another core does.
    OtherCore,
}

/// Transfers of one resource, one after the other in the order in which they were started.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<(OpId, u64)>,
}

impl Queue {
    /// Starts a transfer that takes so long when nothing else uses the resource.
    pub(super) fn start(&mut self, op: OpId, ps: u64) {
        self.waiting.push_back((op, ps));
    }

    /// Lets the resource work for so long.
    pub(super) fn pass(&mut self, mut ps: u64) {
        while ps > 0 {
            let Some((_, left)) = self.waiting.front_mut() else {
                return;
            };
            let worked = ps.min(*left);
            *left -= worked;
            ps -= worked;
            if *left > 0 {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// How long it takes until a transfer is done, with nothing beside; 0 for one that is.
    pub(super) fn left(&self, op: OpId) -> u64 {
        let Some(at) = self.waiting.iter().rposition(|(waiting, _)| *waiting == op) else {
            return 0;
        };
        self.waiting
            .iter()
            .take(at + 1)
            .fold(0, |sum, (_, left)| sum.saturating_add(*left))
    }
}

/// The queues of all resources.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    hbm: Queue,
    ici: Queue,
    host: Queue,
    other_core: Queue,
}

impl Queues {
    pub(super) fn of(&mut self, resource: Resource) -> &mut Queue {
        match resource {
            Resource::Hbm => &mut self.hbm,
            Resource::Ici => &mut self.ici,
            Resource::Host => &mut self.host,
            Resource::OtherCore => &mut self.other_core,
        }
    }

    /// Lets time pass, of which the core itself uses HBM and ICI for so long.
    pub(super) fn pass(&mut self, ps: u64, hbm_ps: u64, ici_ps: u64) {
        self.hbm.pass(ps.saturating_sub(hbm_ps));
        self.ici.pass(ps.saturating_sub(ici_ps));
        self.host.pass(ps);
        self.other_core.pass(ps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_of_one_resource_follow_each_other() {
        let (a, b) = (OpId::new(0), OpId::new(1));
        let mut queue = Queue::default();
        queue.start(a, 10);
        queue.start(b, 5);
        assert_eq!((queue.left(a), queue.left(b)), (10, 15));
        queue.pass(12);
        assert_eq!((queue.left(a), queue.left(b)), (0, 3));
        queue.pass(100);
        assert_eq!(queue.left(b), 0);
    }

    #[test]
    fn what_the_core_reads_itself_is_not_left_to_transfers() {
        let a = OpId::new(0);
        let mut queues = Queues::default();
        queues.of(Resource::Hbm).start(a, 10);
        queues.of(Resource::Ici).start(a, 10);
        queues.pass(8, 6, 0);
        assert_eq!(queues.of(Resource::Hbm).left(a), 8);
        assert_eq!(queues.of(Resource::Ici).left(a), 2);
    }
}
