//! The style sheet, and the policy that allows it and nothing else.

/// The one style sheet.
pub(crate) const STYLE: &str = include_str!("assets/report.css");

/// What a browser may do with a report: apply the style sheet of this hash. No script, no image,
/// no font, no frame, no form, no request.
///
/// A test says what the hash must be when the style sheet changes.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'sha256-yd25LFaJQbcW+y63f7LQWJVB2t6DQlbdhqaXwuQnWMc='; base-uri 'none'; form-action 'none'";

#[cfg(test)]
mod tests {
    use super::{CONTENT_SECURITY_POLICY, STYLE};

    /// SHA-256 by FIPS 180-4, as Base64: enough to check one constant.
    fn sha256_base64(bytes: &[u8]) -> String {
        // The first 32 bits of the fractional parts of roots of the first primes.
        let primes: Vec<u32> = (2u32..)
            .filter(|n| (2..*n).all(|d| n % d != 0))
            .take(64)
            .collect();
        let fraction = |root: f64| (root.fract() * 4_294_967_296.0) as u32;
        let k: Vec<u32> = primes
            .iter()
            .map(|p| fraction(f64::from(*p).cbrt()))
            .collect();
        let mut state: Vec<u32> = primes[..8]
            .iter()
            .map(|p| fraction(f64::from(*p).sqrt()))
            .collect();
        let mut message = bytes.to_vec();
        message.push(0x80);
        while message.len() % 64 != 56 {
            message.push(0);
        }
        message.extend((bytes.len() as u64 * 8).to_be_bytes());
        for block in message.chunks(64) {
            let mut w: Vec<u32> = block
                .chunks(4)
                .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            for i in 16..64 {
                let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
                let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
                let next = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]);
                w.push(next.wrapping_add(s1));
            }
            let mut v = state.clone();
            for i in 0..64 {
                let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
                let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
                let t1 = [s1, choice, k[i], w[i]]
                    .iter()
                    .fold(v[7], |a, b| a.wrapping_add(*b));
                let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
                let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
                v.rotate_right(1);
                v[4] = v[4].wrapping_add(t1);
                v[0] = t1.wrapping_add(s0).wrapping_add(majority);
            }
            for (sum, more) in state.iter_mut().zip(v) {
                *sum = sum.wrapping_add(more);
            }
        }
        let digest: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in digest.chunks(3) {
            let bits = chunk
                .iter()
                .chain([0u8, 0].iter())
                .take(3)
                .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
            for i in 0..4 {
                let shown = i <= chunk.len();
                let digit = (bits >> (18 - 6 * i) & 63) as usize;
                text.push(if shown {
                    char::from(ALPHABET[digit])
                } else {
                    '='
                });
            }
        }
        text
    }

    #[test]
    fn the_hash_function_gives_the_published_answer() {
        // FIPS 180-4's example "abc".
        assert_eq!(
            sha256_base64(b"abc"),
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }

    #[test]
    fn the_policy_allows_the_style_sheet_and_nothing_else() {
        let hash = format!("style-src 'sha256-{}'", sha256_base64(STYLE.as_bytes()));
        assert!(
            CONTENT_SECURITY_POLICY.contains(&hash),
            "the style sheet has changed: the policy must have {hash}"
        );
        assert!(CONTENT_SECURITY_POLICY.starts_with("default-src 'none';"));
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
