//! A sharding as HLO writes it, in words.

use std::fmt;

/// A sharding: `{devices=[2,1,4]<=[4,2]T(1,0)}`, `{maximal device=0}`, `{replicated}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// As written, with its braces.
    pub text: String,
    /// What it says.
    pub kind: Kind,
}

/// What a sharding says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every device has the whole tensor.
    Replicated,
    /// One device has the whole tensor.
    Maximal {
        /// The device's number.
        device: u64,
    },
    /// Axes are split.
    Tiled {
        /// Parts of each axis of the tensor.
        parts: Vec<u64>,
        /// Devices that hold the same part.
        copies: u64,
        /// Devices within the parts that are left to the program itself (`manual`).
        manual: bool,
        /// Whether devices lie in another order than that of their numbers.
        reordered: bool,
    },
    /// Another form.
    Other,
}

impl Sharding {
    /// Reads a sharding with its braces.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self {
            text: text.chars().take(512).collect(),
            kind: kind(text).unwrap_or(Kind::Other),
        }
    }

    /// Devices that hold a part of the tensor; 1 for a maximal one, 0 where it is not known.
    #[must_use]
    pub fn devices(&self) -> u64 {
        match &self.kind {
            Kind::Tiled { parts, copies, .. } => parts
                .iter()
                .fold(*copies, |devices, part| devices.saturating_mul(*part)),
            Kind::Maximal { .. } => 1,
            Kind::Replicated | Kind::Other => 0,
        }
    }

    /// Parts of each axis; empty where it is not tiled.
    #[must_use]
    pub fn parts(&self) -> &[u64] {
        match &self.kind {
            Kind::Tiled { parts, .. } => parts,
            _ => &[],
        }
    }
}

fn kind(text: &str) -> Option<Kind> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    if inner == "replicated" {
        return Some(Kind::Replicated);
    }
    if let Some(device) = inner.strip_prefix("maximal device=") {
        let digits: String = device.chars().take_while(char::is_ascii_digit).collect();
        return Some(Kind::Maximal {
            device: digits.parse().ok()?,
        });
    }
    let rest = inner.strip_prefix("devices=[")?;
    let (list, rest) = rest.split_once(']')?;
    let mut parts = list
        .split(',')
        .map(|part| part.trim().parse::<u64>().ok().filter(|part| *part > 0))
        .collect::<Option<Vec<u64>>>()?;
    let mut copies = 1;
    let mut manual = false;
    if rest.contains("last_tile_dim_replicate") {
        copies = parts.pop()?;
    } else if let Some((_, list)) = rest.split_once("last_tile_dims={") {
        let (list, _) = list.split_once('}')?;
        manual = list.contains("manual");
        for _ in list.split(',') {
            copies *= parts.pop()?.min(u64::from(u32::MAX));
        }
    }
    Some(Kind::Tiled {
        parts,
        copies,
        manual,
        reordered: rest.contains(")") && rest.contains("]T("),
    })
}

impl fmt::Display for Sharding {
    /// `axis 1 over 8 devices`, `axis 0 over 2 devices, 4 copies`, `the whole tensor on device 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Replicated => f.write_str("the whole tensor on every device"),
            Kind::Maximal { device } => write!(f, "the whole tensor on device {device} alone"),
            Kind::Other => f.write_str(&self.text),
            Kind::Tiled { parts, copies, .. } => {
                let split: Vec<String> = parts
                    .iter()
                    .enumerate()
                    .filter(|(_, parts)| **parts > 1)
                    .map(|(axis, parts)| format!("axis {axis} over {parts} devices"))
                    .collect();
                match (split.is_empty(), *copies) {
                    (true, copies) => write!(f, "not split, {copies} copies"),
                    (false, 1) => f.write_str(&split.join(" and ")),
                    (false, copies) => write!(f, "{}, {copies} copies", split.join(" and ")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sharding;

    #[test]
    fn shardings_in_words() {
        for (text, words, devices) in [
            ("{devices=[1,8,1]<=[8]}", "axis 1 over 8 devices", 8),
            (
                "{devices=[2,1,4]<=[4,2]T(1,0)}",
                "axis 0 over 2 devices and axis 2 over 4 devices",
                8,
            ),
            (
                "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
                "axis 0 over 2 devices, 2 copies",
                4,
            ),
            (
                "{devices=[4,1,2]<=[8] last_tile_dims={manual}}",
                "axis 0 over 4 devices, 2 copies",
                8,
            ),
            (
                "{maximal device=3}",
                "the whole tensor on device 3 alone",
                1,
            ),
            ("{replicated}", "the whole tensor on every device", 0),
            (
                "{devices=[1,8]<=[8] last_tile_dim_replicate}",
                "not split, 8 copies",
                8,
            ),
            ("{manual}", "{manual}", 0),
            ("{devices=[0,x]}", "{devices=[0,x]}", 0),
        ] {
            let sharding = Sharding::parse(text);
            assert_eq!(sharding.to_string(), words);
            assert_eq!(sharding.devices(), devices, "{text}");
        }
    }
}
