//! The layout of `*-final_bundles.txt`: comments, region marks, bundles and their slots.
//!
//! ```text
//!   0x53 LB: > { %s8_s5 = smov 1024  ;;  %188 = sbr.rel (%p7_p11) target = $region28 }
//!   address label depth  slot        ;;  slot
//! ```
//!
//! Comments (`/* … */`) may span lines; those that mark regions say where branches lead.

use crate::note::Notes;

/// One bundle: the instructions that start in one cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    /// The number that stands before it.
    pub address: u64,
    /// How many loops it is in.
    pub depth: u32,
    /// Whether it does nothing.
    pub empty: bool,
    /// Cycles that it adds to its own (`vdelay`).
    pub delay: u64,
}

/// A bundle listing, its slots given to a visitor as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// The bundles, in order.
    pub bundles: Vec<Bundle>,
    /// Where regions start: region and index of the bundle, sorted.
    pub regions: Vec<(u32, u32)>,
}

/// No kernel comes near it; it bounds memory where a file is not what it seems.
const MAX_BUNDLES: usize = 1 << 24;

/// No delay that the compiler writes comes near it.
const MAX_DELAY: u64 = 1 << 16;

/// Reads the listing and hands each slot and the index of its bundle to `visit`.
pub(super) fn read(text: &str, notes: &mut Notes, mut visit: impl FnMut(u32, &str)) -> Layout {
    let (clean, marks) = without_comments(text);
    let mut marks = marks.into_iter().peekable();
    let mut layout = Layout::default();
    let mut start = 0;
    for line in clean.split_inclusive('\n') {
        let end = start + line.len();
        start = end;
        let Some((mut bundle, body)) = bundle(line) else {
            continue;
        };
        let fits = layout
            .bundles
            .last()
            .is_none_or(|last| bundle.address > last.address);
        if !fits || layout.bundles.len() >= MAX_BUNDLES {
            notes.warn(
                "llo-bundles",
                "bundles whose addresses do not ascend were left out of a kernel's schedule",
            );
            continue;
        }
        let index = layout.bundles.len() as u32;
        for slot in body.split(";;").map(str::trim).filter(|s| !s.is_empty()) {
            bundle.empty = false;
            bundle.delay = bundle.delay.saturating_add(delay(slot)).min(MAX_DELAY);
            visit(index, slot);
        }
        layout.bundles.push(bundle);
        // Marks between two bundles belong to the former: the listing wraps long comments.
        while let Some((_, region)) = marks.next_if(|(at, _)| *at < end) {
            layout.regions.push((region, index));
        }
    }
    layout.regions.sort_unstable();
    layout
}

impl Layout {
    /// The bundle at which a region starts.
    pub(super) fn region(&self, region: u32) -> Option<u32> {
        let at = self.regions.partition_point(|(r, _)| *r < region);
        self.regions
            .get(at)
            .filter(|(r, _)| *r == region)
            .map(|(_, bundle)| *bundle)
    }

    /// The bundle with an address.
    pub(super) fn address(&self, address: u64) -> Option<u32> {
        self.bundles
            .binary_search_by_key(&address, |bundle| bundle.address)
            .ok()
            .map(|index| index as u32)
    }
}

/// Bytes of a DMA granule, where the listing tells the shape of a window that is moved:
/// `/*size_in_granules=*/1024 … window_bounds: (64, 4) … element_size_in_bytes: 2048`.
pub(super) fn granule_bytes(text: &str) -> Option<u64> {
    // A few windows are enough: those that do not divide are at the edge of an array.
    text.match_indices("/*size_in_granules=*/")
        .take(16)
        .find_map(|(at, mark)| {
            let after = text.get(at + mark.len()..)?;
            let digits = after.find(|c: char| !c.is_ascii_digit())?;
            let granules: u64 = after.get(..digits)?.parse().ok()?;
            // Up to the next transfer.
            let slot = after.split("size_in_granules").next()?;
            let (_, bounds) = slot.split_once("window_bounds: (")?;
            let (bounds, rest) = bounds.split_once(')')?;
            let (_, size) = rest.split_once("element_size_in_bytes: ")?;
            let mut bytes: u64 = size.split_whitespace().next()?.parse().ok()?;
            for bound in bounds.split(',') {
                bytes = bytes.checked_mul(bound.trim().parse().ok()?)?;
            }
            let granule = bytes.checked_div(granules)?;
            let exact = granule.checked_mul(granules) == Some(bytes);
            (exact && granule.is_power_of_two() && (4..=4096).contains(&granule)).then_some(granule)
        })
}

/// The text without comments, and where in it regions start.
fn without_comments(text: &str) -> (String, Vec<(usize, u32)>) {
    let mut clean = String::with_capacity(text.len() / 2);
    let mut marks = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        clean.push_str(before);
        let (comment, after) = after.split_once("*/").unwrap_or((after, ""));
        for mark in comment.split("::").map(str::trim) {
            let region = mark
                .strip_prefix("Start region ")
                .or_else(|| mark.strip_prefix("Start/End empty region "));
            if let Some(region) = region.and_then(|region| region.trim().parse().ok()) {
                marks.push((clean.len(), region));
            }
        }
        rest = after;
    }
    clean.push_str(rest);
    (clean, marks)
}

fn bundle(line: &str) -> Option<(Bundle, &str)> {
    let (head, body) = line.split_once('{')?;
    let (address, place) = head.split_once(':').map(|(a, rest)| (a, Some(rest)))?;
    // The label of a loop or region stands between address and colon.
    let address = address.split_whitespace().next()?;
    let address = match address.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => address.parse().ok()?,
    };
    let depth = place.map_or(0, |p| p.matches('>').count() as u32);
    let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
    let bundle = Bundle {
        address,
        depth,
        empty: true,
        delay: 0,
    };
    Some((bundle, body))
}

fn delay(slot: &str) -> u64 {
    slot.split_once("vdelay ")
        .and_then(|(_, cycles)| cycles.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_tells_the_size_of_a_granule() {
        let text = "{ %7 = dma.hbm_to_vmem /*hbm=*/%s7_s1, /*size_in_granules=*/1024, %s1_s2 /* \n\
                    window_bounds: (64, 4)\nstrides: (64, 4)\nelement_size_in_bytes: 2048\n */ }";
        assert_eq!(granule_bytes(text), Some(512));
        assert_eq!(granule_bytes(&text.replace("(64, 4)", "(63, 4)")), None);
        assert_eq!(granule_bytes(&text.replace("1024", "0")), None);
    }

    #[test]
    fn comments_go_and_their_region_marks_stay_with_their_bundle() {
        let text = "\
     0   :  { %0 = vdelay 3 } /* Start region 7 */
  0x1 LB: > { %1 = smov 4 /* a ;; b
} */  ;;  %2 = sfence } /* Start region 9 :: Start/End empty region 10 */
  0x2   : > > {}
";
        let mut slots = Vec::new();
        let layout = read(text, &mut Notes::default(), |at, slot| {
            slots.push((at, slot.to_owned()));
        });
        let expected = [(0, "%0 = vdelay 3"), (1, "%1 = smov 4"), (1, "%2 = sfence")];
        assert_eq!(slots, expected.map(|(at, slot)| (at, slot.to_owned())));
        assert_eq!(layout.bundles.len(), 3);
        assert_eq!(layout.bundles[0].delay, 3);
        assert_eq!(
            (layout.bundles[2].depth, layout.bundles[2].empty),
            (2, true)
        );
        assert_eq!(layout.region(9), Some(1));
        assert_eq!(layout.region(10), Some(1));
        assert_eq!(layout.region(8), None);
        assert_eq!(layout.address(2), Some(2));
    }
}
