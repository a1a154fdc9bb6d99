//! Colours by meaning: a class of operations has one colour in every picture and table.
//!
//! Pictures are drawn in the light theme's colours. `assets/report.css` maps each of them to a
//! variable, so that dark mode, print and forced colours change pictures too. All are at least
//! 3:1 against the paper (WCAG 2.2, 1.4.11), text colours at least 4.5:1, in both themes.

use plotters::style::RGBColor;
use profiler::evidence::OpClass;

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hue {
    /// Matmuls and convolutions.
    Matmul,
    /// Custom kernels.
    Kernel,
    /// Collectives.
    Collective,
    /// Copies to and from host memory, infeed and outfeed.
    Host,
    /// Asynchronous copies within the device.
    AsyncCopy,
    /// Work that only moves data.
    Layout,
    /// Element by element, and random numbers.
    Elementwise,
    /// Reductions.
    Reduce,
    /// Computed indices: scatter, gather, sort.
    Indexing,
    /// Everything else.
    Other,
    /// No operation.
    Idle,
}

impl Hue {
    /// Every hue of operations, in the order of legends.
    pub(crate) const OPS: [Self; 10] = [
        Self::Matmul,
        Self::Kernel,
        Self::Collective,
        Self::Host,
        Self::AsyncCopy,
        Self::Layout,
        Self::Elementwise,
        Self::Reduce,
        Self::Indexing,
        Self::Other,
    ];

    /// Its place in [`Self::OPS`].
    pub(crate) fn slot(self) -> usize {
        Self::OPS
            .iter()
            .position(|hue| *hue == self)
            .unwrap_or(Self::OPS.len() - 1)
    }

    /// The hue of a class.
    pub(crate) fn of(class: OpClass) -> Self {
        match class {
            OpClass::Matmul => Self::Matmul,
            OpClass::CustomCall => Self::Kernel,
            OpClass::Collective(_) => Self::Collective,
            OpClass::AsyncCopy(route) if route.is_host() => Self::Host,
            OpClass::HostTransfer => Self::Host,
            OpClass::AsyncCopy(_) => Self::AsyncCopy,
            OpClass::DataFormatting
            | OpClass::DynamicUpdateSlice
            | OpClass::Slice
            | OpClass::Pad => Self::Layout,
            OpClass::Elementwise | OpClass::Random => Self::Elementwise,
            OpClass::Reduce => Self::Reduce,
            OpClass::Scatter | OpClass::Gather | OpClass::Sort => Self::Indexing,
            OpClass::ControlFlow | OpClass::Other => Self::Other,
        }
    }

    /// The hue of a class by the name that it has in a report.
    pub(crate) fn of_name(class: &str) -> Self {
        match class {
            "matmul" => Self::Matmul,
            "custom call" => Self::Kernel,
            "host copy" | "host transfer" => Self::Host,
            "async copy" => Self::AsyncCopy,
            "data formatting" | "dynamic-update-slice" | "slice" | "pad" => Self::Layout,
            "elementwise" | "random" => Self::Elementwise,
            "reduce" => Self::Reduce,
            "scatter" | "gather" | "sort" => Self::Indexing,
            name if profiler::evidence::CollectiveKind::find(name).is_some() => Self::Collective,
            _ => Self::Other,
        }
    }

    /// The CSS class and variable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Kernel => "kernel",
            Self::Collective => "collective",
            Self::Host => "host",
            Self::AsyncCopy => "async-copy",
            Self::Layout => "layout",
            Self::Elementwise => "elementwise",
            Self::Reduce => "reduce",
            Self::Indexing => "indexing",
            Self::Other => "other",
            Self::Idle => "idle",
        }
    }

    /// The name in a legend.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Kernel => "custom call (kernel)",
            Self::Collective => "collective",
            Self::Host => "host copy or transfer",
            Self::AsyncCopy => "copy within the device",
            Self::Layout => "data movement, slices",
            Self::Elementwise => "elementwise",
            Self::Reduce => "reduce",
            Self::Indexing => "gather, scatter, sort",
            Self::Other => "other",
            Self::Idle => "idle",
        }
    }

    /// The colour in the light theme.
    pub(crate) fn colour(self) -> RGBColor {
        match self {
            Self::Matmul => RGBColor(0x1f, 0x5f, 0xa8),
            Self::Kernel => RGBColor(0x1a, 0x7f, 0x4b),
            Self::Collective => RGBColor(0xc2, 0x4e, 0x00),
            Self::Host => RGBColor(0xb0, 0x12, 0x4a),
            Self::AsyncCopy => RGBColor(0x75, 0x4b, 0xb8),
            Self::Layout => RGBColor(0x8a, 0x6a, 0x00),
            Self::Elementwise => RGBColor(0x2a, 0x86, 0xb8),
            Self::Reduce => RGBColor(0x0b, 0x7a, 0x80),
            Self::Indexing => RGBColor(0x8c, 0x3f, 0x72),
            Self::Other => RGBColor(0x66, 0x6b, 0x73),
            Self::Idle => RGBColor(0xe3, 0xe6, 0xea),
        }
    }
}

/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x20, 0x27);
/// Text of less weight.
pub(crate) const MUTED: RGBColor = RGBColor(0x56, 0x5d, 0x68);
/// Lines of a grid.
pub(crate) const GRID: RGBColor = RGBColor(0xd6, 0xda, 0xe0);
/// Text on a hue.
pub(crate) const ON_HUE: RGBColor = RGBColor(0xff, 0xff, 0xfe);
/// Runs of programs.
pub(crate) const PROGRAM: RGBColor = RGBColor(0x4a, 0x53, 0x61);

#[cfg(test)]
mod tests {
    use super::{GRID, Hue, INK, MUTED, ON_HUE, PROGRAM, RGBColor};
    use crate::assets::STYLE;

    /// The value of a CSS variable in the light (first) and dark (second) theme.
    fn themes(variable: &str) -> [RGBColor; 2] {
        let key = format!("--{variable}: #");
        let values: Vec<RGBColor> = STYLE
            .match_indices(&key)
            .map(|(at, _)| {
                let hex = &STYLE[at + key.len()..at + key.len() + 6];
                let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex");
                RGBColor(byte(0), byte(2), byte(4))
            })
            .collect();
        match values[..] {
            [light, dark] => [light, dark],
            _ => panic!("--{variable} must be set once for each theme, found {values:?}"),
        }
    }

    /// Contrast by WCAG 2.2.
    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let channel = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        let light = |c: RGBColor| {
            0.2126 * channel(c.0) + 0.7152 * channel(c.1) + 0.0722 * channel(c.2) + 0.05
        };
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    fn check(text: &str, ground: &str, least: f64) {
        for (theme, (text_colour, ground_colour)) in ["light", "dark"]
            .iter()
            .zip(themes(text).into_iter().zip(themes(ground)))
        {
            let found = contrast(text_colour, ground_colour);
            assert!(found >= least, "{text} on {ground}, {theme}: {found:.2}");
        }
    }

    #[test]
    fn text_is_readable_in_both_themes() {
        for text in ["ink", "muted", "link", "high", "medium", "low", "info"] {
            for ground in ["paper", "panel"] {
                check(text, ground, 4.5);
            }
        }
        check("on-badge", "high", 4.5);
        check("on-badge", "medium", 4.5);
        check("on-badge", "low", 4.5);
        check("on-badge", "info", 4.5);
        check("muted", "idle", 4.5);
        check("on-hue", "program", 4.5);
    }

    #[test]
    fn hues_stand_out_from_the_paper_and_carry_text() {
        for hue in Hue::OPS {
            check(hue.name(), "paper", 3.0);
            check(hue.name(), "idle", 3.0);
            check("on-hue", hue.name(), 4.0);
        }
    }

    #[test]
    fn the_style_sheet_knows_every_colour_that_pictures_use() {
        let hues = Hue::OPS.into_iter().chain([Hue::Idle]);
        let all = hues.map(|hue| (hue.name(), hue.colour())).chain([
            ("ink", INK),
            ("muted", MUTED),
            ("grid", GRID),
            ("on-hue", ON_HUE),
            ("program", PROGRAM),
        ]);
        for (name, RGBColor(r, g, b)) in all {
            let hex = format!("#{r:02X}{g:02X}{b:02X}");
            let rule = format!("[fill=\"{hex}\"] {{ fill: var(--{name}); }}");
            assert!(STYLE.contains(&rule), "missing: {rule}");
            assert_eq!(themes(name)[0], RGBColor(r, g, b), "--{name}, light");
        }
    }
}
