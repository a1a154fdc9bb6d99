//! `*-final_hlo-static-per-bundle-utilization.txt`: how many slots of each unit a bundle uses.

use serde::Serialize;

use crate::note::Notes;

/// How many units there are.
pub(super) const UNITS: usize = Unit::ALL.len();

/// A unit of the TensorCore, in the order of the compiler's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Matrix units.
    Mxu,
    /// Cross-lane units: transposes, reductions and broadcasts over lanes.
    Xlu,
    /// Vector arithmetic.
    Valu,
    /// Results taken from a unit's queue.
    Vpop,
    /// Transcendental functions.
    Eup,
    /// Vector loads.
    VectorLoad,
    /// Vector loads that bring back a spilled register.
    Fill,
    /// Vector stores.
    VectorStore,
    /// Vector stores that spill a register.
    Spill,
    /// Scalar arithmetic.
    Salu,
    /// Weights brought into the matrix units; told since libtpu 0.0.52.
    MatrixPush,
}

impl Unit {
    /// All units; a schedule's slot use is in this order.
    pub const ALL: [Self; 11] = [
        Self::Mxu,
        Self::Xlu,
        Self::Valu,
        Self::Vpop,
        Self::Eup,
        Self::VectorLoad,
        Self::Fill,
        Self::VectorStore,
        Self::Spill,
        Self::Salu,
        Self::MatrixPush,
    ];

    /// The compiler's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mxu => "MXU",
            Self::Xlu => "XLU",
            Self::Valu => "VALU",
            Self::Vpop => "VPOP",
            Self::Eup => "EUP",
            Self::VectorLoad => "VLOAD",
            Self::Fill => "VLOAD:FILL",
            Self::VectorStore => "VSTORE",
            Self::Spill => "VSTORE:SPILL",
            Self::Salu => "SALU",
            Self::MatrixPush => "MATPUSH",
        }
    }
}

/// The slots of each bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Utilization {
    /// Slots that each unit has.
    pub capacity: [u32; UNITS],
    /// Slots in use, by bundle.
    pub rows: Vec<[u8; UNITS]>,
}

impl Utilization {
    /// Reads the table; columns may come in any order.
    pub(super) fn read(text: &str, notes: &mut Notes) -> Option<Self> {
        let mut lines = text.lines();
        let header = lines.by_ref().find(|line| line.contains("VALU"))?;
        let columns: Vec<Option<usize>> = header
            .split(',')
            .map(|name| match name.trim() {
                // Since libtpu 0.0.52; the figures are those of MXU before.
                "MATMUL" => Some(Unit::Mxu as usize),
                name => Unit::ALL.iter().position(|unit| unit.name() == name),
            })
            .collect();
        let numbers = |line: &str| -> Option<[u8; UNITS]> {
            let mut row = [0_u8; UNITS];
            let mut count = 0;
            for (word, column) in line.split_whitespace().zip(&columns) {
                let value = word.parse::<u8>().ok()?;
                if let Some(place) = column.and_then(|column| row.get_mut(column)) {
                    *place = value;
                }
                count += 1;
            }
            (count == columns.len()).then_some(row)
        };
        let mut rows = lines.filter_map(numbers);
        let capacity = rows.next()?.map(u32::from);
        let rows: Vec<[u8; UNITS]> = rows.collect();
        if columns.contains(&None) {
            notes.info(
                "llo-utilization-columns",
                "the compiler's table of slots has units that are not known here: they are left out",
            );
        }
        Some(Self { capacity, rows })
    }

    /// Slots of each unit over a kernel whose bundles are issued `times`, or once each.
    pub(super) fn slots(&self, times: Option<&[u64]>) -> [u64; UNITS] {
        let mut total = [0_u64; UNITS];
        for (index, row) in self.rows.iter().enumerate() {
            let times = times.map_or(1, |times| times.get(index).copied().unwrap_or(0));
            for (sum, slots) in total.iter_mut().zip(row) {
                *sum = sum.saturating_add(u64::from(*slots).saturating_mul(times));
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
== CAPACTIY:
MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU
    2     2     4     2     1     3     3     2     2     2
== UTILIZATION:
0 0 0 0 0 1 0 0 0 2
1 0 4 0 0 0 2 0 1 0
";

    #[test]
    fn slots_weigh_as_often_as_their_bundle_is_issued() {
        let table = Utilization::read(TABLE, &mut Notes::default()).expect("a table");
        assert_eq!(table.capacity[Unit::Valu as usize], 4);
        assert_eq!(table.slots(None)[Unit::Fill as usize], 2);
        let slots = table.slots(Some(&[1, 10]));
        assert_eq!(slots[Unit::Valu as usize], 40);
        assert_eq!(slots[Unit::Salu as usize], 2);
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "VALU, NEW, MATMUL, XLU\n 2 3 4 2\n 1 5 0 1\n";
        let mut notes = Notes::default();
        let table = Utilization::read(text, &mut notes).expect("a table");
        assert_eq!(table.capacity[Unit::Mxu as usize], 4);
        assert_eq!(table.slots(None)[Unit::Xlu as usize], 1);
        assert_eq!(notes.iter().count(), 1);
    }
}
