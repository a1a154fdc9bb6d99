//! What to use instead of operations that run on the CPU. The card cites the sources.

/// Begin of an operation's name, and what to use instead; longer names first.
const SUBSTITUTES: [(&str, &str); 24] = [
    (
        "nonzero",
        "its size depends on data; mask with torch.where or x * mask, or torch.topk of the mask with a fixed k",
    ),
    (
        "masked_select",
        "its size depends on data; use torch.where(mask, x, 0) and divide by mask.sum() where a mean is meant",
    ),
    (
        "unique",
        "its size depends on data; do it on the host before the step, or use a one-hot histogram of fixed size",
    ),
    (
        "_ctc_loss",
        "there is no lowering; compute the loss on the host from outputs that are moved once, or write it as a scan over time",
    ),
    (
        "_weight_norm",
        "remove the weight norm for inference (torch.nn.utils.remove_weight_norm), or write g * v / v.norm() out",
    ),
    (
        "upsample_nearest1d",
        "x.repeat_interleave(k, dim) with a whole k, or expand and reshape",
    ),
    (
        "upsample_nearest",
        "with a whole factor: expand and reshape (repeat); its gradient falls back too",
    ),
    ("_upsample_bilinear", "pass size= instead of scale_factor="),
    ("upsample_bilinear", "pass size= instead of scale_factor="),
    (
        "upsample_bicubic",
        "use bilinear with size=, or two matmuls with fixed weights",
    ),
    (
        "reflection_pad",
        "concatenate flipped slices: torch.cat([x[..., 1:p + 1].flip(-1), x, …], -1)",
    ),
    ("replication_pad", "concatenate expanded edge slices"),
    (
        "sgn",
        "for real numbers torch.sign; for complex ones z / abs(z) on real and imaginary parts",
    ),
    ("kthvalue", "torch.topk, or torch.sort and an index"),
    ("median", "torch.sort and the middle index"),
    ("histc", "torch.bucketize and a one-hot sum"),
    ("bincount", "a one-hot sum of fixed length"),
    ("_embedding_bag", "an embedding and a sum over the bag"),
    (
        "grid_sampler",
        "gathers of four corners with computed weights",
    ),
    (
        "_fft",
        "move the transform to the host loader, or use a matmul with the DFT matrix where it is short",
    ),
    (
        "im2col",
        "torch.nn.functional.unfold falls back: use a convolution with one-hot weights",
    ),
    ("_cdist", "sqrt of |x|² + |y|² − 2·x·yᵀ, a matmul"),
    (
        "roi_align",
        "torchvision's kernel is not lowered; use gathers with fixed numbers of boxes",
    ),
    (
        "nms",
        "keep a fixed number of boxes with torch.topk and mask the others",
    ),
];

/// What to use instead of `aten::…`, where something is known.
pub(super) fn substitute(op: &str) -> Option<&'static str> {
    let name = op.rsplit("::").next()?;
    let found = SUBSTITUTES
        .iter()
        .find(|(begin, _)| name.starts_with(begin));
    found.map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::{SUBSTITUTES, substitute};

    #[test]
    fn no_name_hides_a_later_one() {
        for (at, (name, instead)) in SUBSTITUTES.iter().enumerate() {
            assert_eq!(
                substitute(&format!("aten::{name}")),
                Some(*instead),
                "{at}: {name}"
            );
        }
        assert_eq!(substitute("aten::add"), None);
    }
}
