//! Shapes in HLO text: `(bf16[4,1024]{1,0:T(8,128)(2,1)S(1)}, s32[])`.

/// One array of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub dtype: String,
    pub dims: Vec<u64>,
    /// 0 HBM, 1 VMEM, 2 sync flags, 5 host, 6 SMEM.
    pub space: u32,
}

impl Array {
    /// How many elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// How many bytes, without padding.
    pub fn bytes(&self) -> u64 {
        (self.elements() * bits(&self.dtype)).div_ceil(8)
    }
}

fn bits(dtype: &str) -> u64 {
    match dtype {
        "s4" | "u4" => 4,
        "pred" | "s8" | "u8" => 8,
        "s16" | "u16" | "f16" | "bf16" => 16,
        "s32" | "u32" | "f32" => 32,
        "s64" | "u64" | "f64" | "c64" => 64,
        "c128" => 128,
        _ if dtype.starts_with("f8") => 8,
        _ => 0,
    }
}

/// The arrays of a shape, in order, tuples flattened.
pub fn arrays(shape: &str) -> Vec<Array> {
    let mut out = Vec::new();
    let mut rest = shape;
    while let Some(open) = rest.find('[') {
        let head = &rest[..open];
        let start = head
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |i| i + 1);
        let Some(close) = rest[open..].find(']') else {
            break;
        };
        let dims = &rest[open + 1..open + close];
        let mut array = Array {
            dtype: head[start..].to_owned(),
            dims: dims
                .split(',')
                .filter_map(|d| d.trim().trim_start_matches("<=").parse().ok())
                .collect(),
            space: 0,
        };
        rest = &rest[open + close + 1..];
        if let Some(layout) = rest.strip_prefix('{') {
            let end = layout.find('}').unwrap_or(layout.len());
            if let Some((_, space)) = layout[..end].split_once("S(") {
                array.space = space
                    .split(')')
                    .next()
                    .and_then(|s| s.parse().ok())
                    .unwrap_or(0);
            }
            rest = &layout[end..];
        }
        out.push(array);
    }
    out
}
