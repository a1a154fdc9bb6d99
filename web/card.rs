//! Rule cards as HTML: the part of Markdown that cards use, and nothing that could be markup.
//!
//! Headings, paragraphs, lists, fenced code, `code`, **strong**, *emphasis* and links to `http(s)`
//! pages. Everything else is text, HTML included. Cards are short and ours, so this is a hundred
//! lines instead of a dependency that must be told what to forbid.

use std::fmt::Write as _;

use crate::text::clean;

/// A card without its title line. Its headings begin at `<h5>`: it stands inside a finding.
pub(crate) fn html(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() * 5 / 4);
    let mut block = Block::None;
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            block.close(&mut out);
            code_block(&mut out, fence, &mut lines);
        } else if line.trim().is_empty() {
            block.close(&mut out);
        } else if let Some((level, title)) = heading(line) {
            block.close(&mut out);
            if level > 1 {
                let level = (level + 3).min(6);
                let _ = write!(out, "<h{level}>{}</h{level}>", inline(title));
            }
        } else if let Some(item) = bullet(line) {
            block.open(&mut out, Block::Bullets);
            let _ = write!(out, "<li>{}", inline(item));
        } else if let Some(item) = numbered(line) {
            block.open(&mut out, Block::Numbers);
            let _ = write!(out, "<li>{}", inline(item));
        } else {
            block.continue_with(&mut out, &inline(line.trim()));
        }
    }
    block.close(&mut out);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Paragraph,
    Bullets,
    Numbers,
}

impl Block {
    /// Begins a list item, in the open list if it is of the kind.
    fn open(&mut self, out: &mut String, kind: Self) {
        if *self == kind {
            out.push_str("</li>");
            return;
        }
        self.close(out);
        out.push_str(if kind == Self::Numbers {
            "<ol>"
        } else {
            "<ul>"
        });
        *self = kind;
    }

    /// A line without a mark: more of the open block, else a paragraph.
    fn continue_with(&mut self, out: &mut String, html: &str) {
        if *self == Self::None {
            out.push_str("<p>");
            *self = Self::Paragraph;
        } else {
            out.push(' ');
        }
        out.push_str(html);
    }

    fn close(&mut self, out: &mut String) {
        out.push_str(match self {
            Self::None => "",
            Self::Paragraph => "</p>",
            Self::Bullets => "</li></ul>",
            Self::Numbers => "</li></ol>",
        });
        *self = Self::None;
    }
}

fn code_block<'m>(out: &mut String, language: &str, lines: &mut impl Iterator<Item = &'m str>) {
    let language = match language.trim() {
        "" => "code",
        language => language,
    };
    let _ = write!(
        out,
        "<pre tabindex=\"0\" aria-label=\"{}\"><code>",
        escape(language)
    );
    for line in lines.take_while(|line| line.trim() != "```") {
        out.push_str(&escape(line));
        out.push('\n');
    }
    out.push_str("</code></pre>");
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (level > 0 && title.starts_with(' ')).then(|| (level, title.trim()))
}

fn bullet(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))
}

fn numbered(line: &str) -> Option<&str> {
    let (number, item) = line.trim_start().split_once(". ")?;
    let digits = !number.is_empty() && number.len() < 4;
    (digits && number.bytes().all(|b| b.is_ascii_digit())).then_some(item)
}

/// The marks within a line.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((html, after)) = span(rest) {
            out.push_str(&html);
            rest = after;
            continue;
        }
        let plain = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| matches!(c, '`' | '*' | '[' | '<'))
            .map_or(rest.len(), |(at, _)| at)
            .max(first.len_utf8());
        out.push_str(&escape(&rest[..plain]));
        rest = &rest[plain..];
    }
    out
}

/// The marked span that text begins with, if any, and what follows it.
fn span(text: &str) -> Option<(String, &str)> {
    if let Some(body) = text.strip_prefix('`') {
        let (code, after) = body.split_once('`')?;
        return Some((format!("<code>{}</code>", escape(code)), after));
    }
    if let Some(body) = text.strip_prefix("**") {
        let (strong, after) = body.split_once("**")?;
        return Some((format!("<strong>{}</strong>", escape(strong)), after));
    }
    if let Some(body) = text.strip_prefix('*') {
        let (em, after) = body.split_once('*')?;
        let is_mark = !em.is_empty() && !em.starts_with(' ') && !em.ends_with(' ');
        return is_mark.then(|| (format!("<em>{}</em>", escape(em)), after));
    }
    if let Some(body) = text.strip_prefix('<') {
        let (url, after) = body.split_once('>')?;
        return Some((link(url, url)?, after));
    }
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (url, after) = rest.split_once(')')?;
    Some((link(url, label)?, after))
}

/// A link, for pages only.
fn link(url: &str, label: &str) -> Option<String> {
    let is_page = url.starts_with("https://") || url.starts_with("http://");
    let has_space = url.contains(char::is_whitespace);
    (is_page && !has_space).then(|| {
        format!(
            "<a href=\"{}\" rel=\"noreferrer noopener\">{}</a>",
            escape(url),
            escape(label)
        )
    })
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in clean(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#x27;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn a_card_keeps_its_structure() {
        let card = "# TT1 name\n\n## What it does\nFinds `S(5)` and\nmore.\n\n- one\n- **two**\n  goes on\n\n1. first\n";
        assert_eq!(
            html(card),
            "<h5>What it does</h5><p>Finds <code>S(5)</code> and more.</p>\
             <ul><li>one</li><li><strong>two</strong> goes on</li></ul><ol><li>first</li></ol>"
        );
    }

    #[test]
    fn html_and_scripts_in_a_card_are_text() {
        let card = "a <b>b</b> <script>x</script> [x](javascript:alert(1)) <javascript:x>\n\n```py\"><i>\n</code> & ```\n```\n";
        let shown = html(card);
        assert!(!shown.contains("<b>"), "{shown}");
        assert!(!shown.contains("<script"), "{shown}");
        assert!(!shown.contains("<i>"), "{shown}");
        assert!(!shown.contains("href"), "{shown}");
        assert!(shown.contains("&lt;/code&gt; &amp; ```"), "{shown}");
    }

    #[test]
    fn links_lead_to_pages_only_and_tell_nobody_where_from() {
        let shown = html("see <https://example.org/a?b=1&c> and [here](https://example.org)");
        assert!(
            shown.contains("<a href=\"https://example.org/a?b=1&amp;c\" rel=\"noreferrer noopener\">https://example.org/a?b=1&amp;c</a>"),
            "{shown}"
        );
        assert!(shown.contains(">here</a>"), "{shown}");
    }

    #[test]
    fn an_open_mark_is_text() {
        assert_eq!(html("2 * 3 and `open"), "<p>2 * 3 and `open</p>");
        assert_eq!(
            html("```\nnever closed"),
            "<pre tabindex=\"0\" aria-label=\"code\"><code>never closed\n</code></pre>"
        );
    }
}
