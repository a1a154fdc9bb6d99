//! Block sizes that a kernel's name tells.

/// Names of block sizes as kernels write them, the longest first where one begins another.
const KEYS: [&str; 22] = [
    "block_kv_compute",
    "block_kv",
    "block_q",
    "block_k",
    "block_m",
    "block_n",
    "block_b",
    "bkv_csz",
    "bkv_sz",
    "bq_csz",
    "bq_sz",
    "bkvp",
    "bkv",
    "bq",
    "bk",
    "bm",
    "bn",
    "tile_m",
    "tile_k",
    "tile_n",
    "page_size",
    "p",
];

/// The block sizes in a name, in their order: `RPA-bq_32-bkvp_64-p_64-` has `bq` 32, `bkvp` 64 and
/// `p` 64; `matmul_bm128_bn128` has `bm` 128 and `bn` 128.
pub(crate) fn blocks(name: &str) -> Vec<(&'static str, u64)> {
    let mut found: Vec<(&'static str, u64)> = Vec::new();
    let mut rest = name;
    let mut begins = true;
    while let Some(first) = rest.chars().next() {
        let known = KEYS.iter().find_map(|key| {
            let after = rest.strip_prefix(key).filter(|_| begins)?;
            let after = after.strip_prefix(['_', '-', '=']).unwrap_or(after);
            let end = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            let size = after.get(..end)?.parse::<u64>().ok()?;
            Some((*key, size, after.get(end..)?))
        });
        match known {
            Some((key, size, after)) => {
                if size > 0 && !found.iter().any(|(name, _)| *name == key) {
                    found.push((key, size));
                }
                rest = after;
                begins = true;
            }
            None => {
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
                begins = matches!(first, '_' | '-' | '.' | '/' | ',' | ' ');
            }
        }
    }
    found
}

/// The size of one block.
pub(crate) fn size(blocks: &[(&str, u64)], keys: &[&str]) -> Option<u64> {
    let found = keys
        .iter()
        .find_map(|key| blocks.iter().find(|(name, _)| name == key));
    found.map(|(_, size)| *size)
}

/// The blocks as people read them: `bq 32, bkvp 64`.
pub(crate) fn listed(blocks: &[(&str, u64)]) -> String {
    let each: Vec<String> = blocks
        .iter()
        .map(|(name, size)| format!("{name} {size}"))
        .collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_blocks() {
        for (name, expected) in [
            (
                "RPA-bq_32-bkvp_64-p_64-.17",
                &[("bq", 32), ("bkvp", 64), ("p", 64)][..],
            ),
            (
                "matmul_bm128_bn128_bk64.1",
                &[("bm", 128), ("bn", 128), ("bk", 64)],
            ),
            (
                "flash_block_q_512_block_kv_1024",
                &[("block_q", 512), ("block_kv", 1024)],
            ),
            ("splash_mha_fwd.3", &[]),
            ("bq_99999999999999999999999", &[]),
            ("", &[]),
            ("p", &[]),
            ("\u{e9}bq_8", &[]),
        ] {
            assert_eq!(blocks(name), expected, "{name}");
        }
    }
}
