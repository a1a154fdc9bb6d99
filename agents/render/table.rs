//! Plain tables: columns as wide as their content, two spaces apart, no frames.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr as _;

use crate::render::markdown;
use crate::render::safe::{WIDTH, clean, shorten};

/// On which side a column's values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under a header. Cells are raw: they are made safe when they are written.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    header: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

/// Spaces between columns at a terminal.
const GAP: usize = 2;
/// A column of words is not shortened below this.
const LEAST: usize = 8;

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

    /// Writes header and rows for a terminal. Words are shortened where the table would be too
    /// wide, the widest column first; numbers never are.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let names = self.header.map(|(name, _)| name.to_owned());
        let rows: Vec<[String; N]> = self
            .rows
            .iter()
            .map(|row| std::array::from_fn(|i| clean(&row[i])))
            .collect();
        let mut widths = self.header.map(|(name, _)| name.width());
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        self.fit(&mut widths);
        let dim = anstyle::Style::new().dimmed();
        writeln!(out, "{dim}{}{dim:#}", self.line(&names, &widths))?;
        for row in &rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    /// Writes header and rows as a GitHub table.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let names = self.header.map(|(name, _)| markdown::escape(name));
        writeln!(out, "| {} |", names.join(" | "))?;
        let rules = self.header.map(|(_, align)| match align {
            Align::Left => ":--",
            Align::Right => "--:",
        });
        writeln!(out, "| {} |", rules.join(" | "))?;
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(self.header)
                .map(|(cell, (_, align))| match align {
                    Align::Left => markdown::code(cell),
                    Align::Right => markdown::escape(cell),
                })
                .collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
        Ok(())
    }

    fn fit(&self, widths: &mut [usize; N]) {
        let total = |widths: &[usize; N]| widths.iter().sum::<usize>() + GAP * (N - 1);
        while total(widths) > WIDTH {
            let words = (0..N).filter(|i| {
                let (name, align) = self.header[*i];
                align == Align::Left && widths[*i] > LEAST.max(name.width())
            });
            let Some(widest) = words.max_by_key(|i| (widths[*i], std::cmp::Reverse(*i))) else {
                return;
            };
            widths[widest] -= 1;
        }
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for (i, ((cell, width), (_, align))) in
            cells.iter().zip(widths).zip(self.header).enumerate()
        {
            if i > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = match align {
                Align::Left => shorten(cell, *width),
                Align::Right => cell.clone(),
            };
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            match align {
                Align::Left => {
                    line.push_str(&cell);
                    line.push_str(&pad);
                }
                Align::Right => {
                    line.push_str(&pad);
                    line.push_str(&cell);
                }
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    fn written(table: &Table<2>) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        table.write(&mut out).expect("a vector takes all");
        String::from_utf8(out.into_inner()).expect("text")
    }

    #[test]
    fn words_give_way_and_numbers_do_not() {
        let mut table = Table::new([("name", Align::Left), ("ms", Align::Right)]);
        table.row(["x".repeat(200), "123456.789".to_owned()]);
        table.row(["y\u{1b}[2J".to_owned(), "1".to_owned()]);
        let text = written(&table);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [80, 80, 80]);
        assert!(text.contains("123456.789") && text.contains("y?[2J"));
    }

    #[test]
    fn a_pipe_in_a_name_does_not_end_a_markdown_cell() {
        let mut table = Table::new([("name", Align::Left), ("ms", Align::Right)]);
        table.row(["a|b`c".to_owned(), "1".to_owned()]);
        let mut out = Vec::new();
        table.write_markdown(&mut out).expect("a vector takes all");
        let text = String::from_utf8(out).expect("text");
        assert!(text.ends_with("| ``a\\|b`c`` | 1 |\n"), "{text}");
    }
}
