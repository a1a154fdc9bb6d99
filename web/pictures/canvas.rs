//! A sheet to draw on: plotters' SVG backend with the few shapes that our pictures are made of.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontTransform, IntoFont as _, RGBColor, ShapeStyle};

use crate::text::clean;

/// Width of all pictures in pixels: what is left of a 1366-pixel screen.
pub(crate) const WIDTH: i32 = 1180;
/// Size of text in pixels.
pub(crate) const TEXT: f64 = 12.0;
/// Width of a character of that size, about; names of operations are all of narrow letters.
const CHARACTER: f64 = 6.6;
/// plotters writes a font's size over this.
const PLOTTERS_FONT_SCALE: f64 = 1.24;

/// Where text stands to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A sheet of [`WIDTH`] pixels.
///
/// Writing to memory cannot fail, so the backend's errors are dropped.
pub(crate) struct Canvas<'b> {
    area: DrawingArea<SVGBackend<'b>, Shift>,
}

/// Draws a picture of a height.
pub(crate) fn picture(height: i32, draw: impl FnOnce(&Canvas<'_>)) -> String {
    let mut svg = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.max(1).unsigned_abs());
        let canvas = Canvas {
            area: SVGBackend::with_string(&mut svg, size).into_drawing_area(),
        };
        draw(&canvas);
        let _ = canvas.area.present();
    }
    // Defaults that the backend spells out are half of a picture's bytes. Quotes in text are
    // escaped, so this meets attributes only.
    svg.replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" font-style=\"normal\"", "")
}

impl Canvas<'_> {
    /// A filled rectangle from its upper left corner.
    pub(crate) fn block(&self, x: i32, y: i32, width: i32, height: i32, colour: RGBColor) {
        if width > 0 && height > 0 {
            let corners = [(x, y), (x + width, y + height)];
            let _ = self.area.draw(&Rectangle::new(corners, colour.filled()));
        }
    }

    /// A line through points.
    pub(crate) fn line(&self, points: &[(i32, i32)], width: u32, colour: RGBColor) {
        let style: ShapeStyle = colour.stroke_width(width);
        let _ = self.area.draw(&PathElement::new(points.to_vec(), style));
    }

    /// A disc with an outline of its colour.
    pub(crate) fn disc(&self, x: i32, y: i32, radius: i32, colour: RGBColor) {
        let style = colour.mix(0.45).filled();
        let _ = self.area.draw(&Circle::new((x, y), radius, style));
        let outline: ShapeStyle = colour.stroke_width(1);
        let _ = self.area.draw(&Circle::new((x, y), radius, outline));
    }

    /// Text with its middle at the height `y`.
    pub(crate) fn text(&self, x: i32, y: i32, text: &str, colour: RGBColor, anchor: Anchor) {
        self.turned(x, y, text, colour, anchor, FontTransform::None);
    }

    /// Text that runs upwards.
    pub(crate) fn upwards(&self, x: i32, y: i32, text: &str, colour: RGBColor) {
        self.turned(x, y, text, colour, Anchor::Middle, FontTransform::Rotate270);
    }

    fn turned(
        &self,
        x: i32,
        y: i32,
        text: &str,
        colour: RGBColor,
        anchor: Anchor,
        transform: FontTransform,
    ) {
        let h_pos = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = ("sans-serif", TEXT * PLOTTERS_FONT_SCALE)
            .into_font()
            .transform(transform)
            .color(&colour)
            .pos(Pos::new(h_pos, VPos::Center));
        let text = Text::new(clean(text).replace('\n', " "), (x, y), style);
        let _ = self.area.draw(&text);
    }
}

/// Width of text in pixels, about.
pub(crate) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * CHARACTER).ceil() as i32
}

/// How many characters fit into a width.
pub(crate) fn characters_in(width: i32) -> usize {
    (f64::from(width.max(0)) / CHARACTER) as usize
}
