//! Plain tables: columns as wide as their content, two spaces apart, no frames.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr as _;

/// On which side a column's values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under a header.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    header: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with that header.
    #[must_use]
    pub fn new(header: [(&'static str, Align); N]) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes header and rows.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut widths = self.header.map(|(name, _)| name.width());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let dim = anstyle::Style::new().dimmed();
        let names = self.header.map(|(name, _)| name.to_owned());
        writeln!(out, "{dim}{}{dim:#}", self.line(&names, &widths))?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for (i, ((cell, width), (_, align))) in
            cells.iter().zip(widths).zip(self.header).enumerate()
        {
            if i > 0 {
                line.push_str("  ");
            }
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            match align {
                Align::Left => {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
                Align::Right => {
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}
