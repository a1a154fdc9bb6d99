//! Windows of convolutions: how many of their positions meet an element.

use crate::program::instruction::{ConvDims, WindowDim};
use crate::program::matmul::at;
use crate::program::shape::Array;

/// One spatial dimension of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Spatial {
    pub(super) input: u64,
    pub(super) window: u64,
    pub(super) output: u64,
    pub(super) how: WindowDim,
}

pub(super) fn spatial_dims(
    dims: &ConvDims,
    window: &[WindowDim],
    lhs: &Array,
    rhs: &Array,
    out: &Array,
) -> Vec<Spatial> {
    let positions = dims
        .input_spatial
        .iter()
        .zip(&dims.kernel_spatial)
        .zip(&dims.output_spatial);
    positions
        .enumerate()
        .filter_map(|(i, ((&input, &kernel), &output))| {
            Some(Spatial {
                input: at(&lhs.dims, input)?,
                window: at(&rhs.dims, kernel)?,
                output: at(&out.dims, output)?,
                how: window.get(i).copied().unwrap_or_default(),
            })
        })
        .collect()
}

impl Spatial {
    /// Pairs of an output position and a window position that meet an input element rather than
    /// padding or a hole of dilation.
    pub(super) fn valid_pairs(self) -> u64 {
        /// Longer windows are not walked: what reaches into padding is then a small part.
        const MAX_WINDOW: u64 = 1 << 20;
        if self.window > MAX_WINDOW {
            return self.window.saturating_mul(self.output);
        }
        (0..self.window).fold(0, |pairs, window| {
            pairs.saturating_add(self.outputs_at(window))
        })
    }

    /// Output positions at which that window position meets an input element.
    fn outputs_at(self, window: u64) -> u64 {
        let WindowDim {
            stride,
            pad_low,
            base_dilation,
            window_dilation,
            ..
        } = self.how;
        if self.input == 0 {
            return 0;
        }
        // No real size comes near this; below it no product overflows.
        let sane = |size: u64| i128::from(size.min(1 << 40));
        let (stride, holes) = (sane(stride.max(1)), sane(base_dilation.max(1)));
        let end = sane(self.input - 1) * holes;
        let pad_low = i128::from(pad_low.clamp(-(1 << 40), 1 << 40));
        let first = sane(window) * sane(window_dilation) - pad_low;
        // Output o looks at position first + stride * o: it must lie in 0..=end, so o in from..to.
        let from = if first >= 0 {
            0
        } else {
            (-first + stride - 1) / stride
        };
        let to = if first > end {
            0
        } else {
            (end - first) / stride + 1
        };
        let to = to.min(i128::from(self.output));
        // And on an element: stride * o = -first modulo the holes.
        let divisor = gcd(stride, holes);
        if first % divisor != 0 || from >= to {
            return 0;
        }
        let period = holes / divisor;
        let inverse = inverse(stride / divisor % period, period);
        let start = ((-first / divisor) % period * inverse).rem_euclid(period);
        let next = from + (start - from).rem_euclid(period);
        if next >= to {
            return 0;
        }
        u64::try_from((to - 1 - next) / period + 1).unwrap_or(u64::MAX)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The inverse of `a` modulo `modulus`, to which it is coprime; 0 where the modulus is 1.
fn inverse(a: i128, modulus: i128) -> i128 {
    let (mut old, mut new) = ((a, 1i128), (modulus, 0i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(modulus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every pair, one by one.
    fn counted(spatial: Spatial) -> u64 {
        let how = spatial.how;
        let mut pairs = 0;
        for output in 0..spatial.output {
            for window in 0..spatial.window {
                let at = i128::from(output * how.stride) + i128::from(window * how.window_dilation)
                    - i128::from(how.pad_low);
                let holes = i128::from(how.base_dilation);
                let inside = at >= 0 && at % holes == 0 && at / holes < i128::from(spatial.input);
                pairs += u64::from(inside);
            }
        }
        pairs
    }

    proptest! {
        #[test]
        fn window_pairs_are_counted_without_walking_the_output(
            (input, window, output) in (0u64..20, 0u64..12, 0u64..20),
            (stride, base_dilation, window_dilation) in (1u64..8, 1u64..8, 0u64..4),
            pad_low in -6i64..12,
        ) {
            let how = WindowDim { stride, pad_low, base_dilation, window_dilation, ..WindowDim::default() };
            let spatial = Spatial { input, window, output, how };
            prop_assert_eq!(spatial.valid_pairs(), counted(spatial));
        }

        #[test]
        fn no_size_panics(
            (input, window, output) in (any::<u64>(), 0u64..3, any::<u64>()),
            (stride, base_dilation, window_dilation) in (any::<u64>(), any::<u64>(), any::<u64>()),
            pad_low in any::<i64>(),
        ) {
            let how = WindowDim { stride, pad_low, base_dilation, window_dilation, ..WindowDim::default() };
            let _ = Spatial { input, window, output, how }.valid_pairs();
        }
    }
}
