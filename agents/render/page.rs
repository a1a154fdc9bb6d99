//! A page of headings, sentences and tables that is written for a terminal or as Markdown.

use std::io::{self, Write};

use anstyle::Style;

use crate::render::markdown;
use crate::render::safe::{WIDTH, clean, wrap};
use crate::render::table::Table;

/// A table of any number of columns.
trait Grid {
    fn text(&self, out: &mut Vec<u8>) -> io::Result<()>;
    fn markdown(&self, out: &mut Vec<u8>) -> io::Result<()>;
}

impl<const N: usize> Grid for Table<N> {
    fn text(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.write(out)
    }

    fn markdown(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.write_markdown(out)
    }
}

enum Block {
    Heading(String),
    Facts(Vec<(String, String)>),
    Sentence(String),
    Item(String),
    Table(Box<dyn Grid>),
    Drawing(Vec<String>),
}

/// Blocks from top to bottom. Texts are raw: they are made safe when they are written.
#[derive(Default)]
pub struct Page {
    blocks: Vec<Block>,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A heading.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Heading(text.into()))
    }

    /// Labels with what they say, in lines under each other; a line without a label goes on with
    /// the one before.
    pub fn facts(&mut self, facts: Vec<(String, String)>) -> &mut Self {
        self.add(Block::Facts(facts))
    }

    /// A sentence of its own.
    pub fn sentence(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Sentence(text.into()))
    }

    /// An item of a list.
    pub fn item(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Item(text.into()))
    }

    /// A table.
    pub fn table<const N: usize>(&mut self, table: Table<N>) -> &mut Self {
        self.add(Block::Table(Box::new(table)))
    }

    /// Lines that stay as they are.
    pub fn drawing(&mut self, lines: Vec<String>) -> &mut Self {
        self.add(Block::Drawing(lines))
    }

    fn add(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }

    /// Writes the page for a terminal.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let bold = Style::new().bold();
        let dim = Style::new().dimmed();
        for (i, block) in self.blocks.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|i| self.blocks.get(i));
            if before.is_some_and(|before| !is_tight(before, block)) {
                writeln!(out)?;
            }
            match block {
                Block::Heading(text) => writeln!(out, "{bold}{}{bold:#}", clean(text))?,
                Block::Facts(facts) => {
                    let width = facts
                        .iter()
                        .map(|(label, _)| label.len())
                        .max()
                        .unwrap_or(0)
                        + 2;
                    for (label, text) in facts {
                        for (i, line) in wrap(&clean(text), WIDTH.saturating_sub(width))
                            .iter()
                            .enumerate()
                        {
                            let label = if i == 0 { label.as_str() } else { "" };
                            writeln!(out, "{dim}{label:<width$}{dim:#}{line}")?;
                        }
                    }
                }
                Block::Sentence(text) => {
                    for line in wrap(&clean(text), WIDTH) {
                        writeln!(out, "{line}")?;
                    }
                }
                Block::Item(text) => {
                    for (i, line) in wrap(&clean(text), WIDTH - 2).iter().enumerate() {
                        let mark = if i == 0 { "- " } else { "  " };
                        writeln!(out, "{mark}{line}")?;
                    }
                }
                Block::Table(table) => {
                    let mut bytes = Vec::new();
                    table.text(&mut bytes)?;
                    out.write_all(&bytes)?;
                }
                Block::Drawing(lines) => {
                    for line in lines {
                        writeln!(out, "{}", clean(line))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the page as GitHub-flavoured Markdown.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        for (i, block) in self.blocks.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|i| self.blocks.get(i));
            let list = matches!((before, block), (Some(Block::Item(_)), Block::Item(_)));
            if before.is_some() && !list {
                writeln!(out)?;
            }
            match block {
                Block::Heading(text) => writeln!(out, "## {}", markdown::escape(text))?,
                Block::Facts(facts) => {
                    for (label, text) in facts {
                        let text = markdown::escape(text);
                        if label.is_empty() {
                            writeln!(out, "  ({text})")?;
                        } else {
                            writeln!(out, "- **{}**: {text}", markdown::escape(label))?;
                        }
                    }
                }
                Block::Sentence(text) => writeln!(out, "{}", markdown::escape(text))?,
                Block::Item(text) => writeln!(out, "- {}", markdown::escape(text))?,
                Block::Table(table) => {
                    let mut bytes = Vec::new();
                    table.markdown(&mut bytes)?;
                    out.write_all(&bytes)?;
                }
                Block::Drawing(lines) => {
                    // Indented code cannot be closed by what stands in it.
                    for line in lines {
                        writeln!(out, "    {}", clean(line))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether no empty line stands between two blocks at a terminal.
fn is_tight(before: &Block, block: &Block) -> bool {
    matches!(
        (before, block),
        (Block::Heading(_), _) | (Block::Item(_), Block::Item(_))
    )
}
