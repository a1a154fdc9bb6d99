//! A Python file, parsed.

use ruff_python_ast::ModModule;
use ruff_python_parser::{Parsed, parse_module};
use ruff_source_file::{LineIndex, OneIndexed};
use ruff_text_size::{TextRange, TextSize};

use crate::finding::Place;
use crate::python::nesting::Nesting;

/// Files larger than this are data, not code.
const MAX_BYTES: usize = 4 << 20;
/// Brackets nested deeper than this are refused by CPython itself ("too many nested parentheses").
const MAX_BRACKETS: usize = 200;
/// Blocks nested deeper than this are refused by CPython itself ("too many levels of indentation").
const MAX_BLOCKS: usize = 100;
/// Operators in one expression: more would exhaust the stack.
const MAX_CHAIN: usize = 1000;

/// A Python file, parsed.
#[derive(Debug)]
pub struct SourceFile {
    /// The path as it is shown.
    pub path: String,
    /// The text.
    pub text: String,
    parsed: Parsed<ModModule>,
    lines: LineIndex,
}

/// Why a file is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceNote {
    /// It is no Python 3.
    #[error("{path}:{line}: not Python 3: {error}; the file is left out")]
    Syntax {
        /// The file.
        path: String,
        /// The line of the error.
        line: u64,
        /// What the parser says.
        error: String,
    },
    /// It is written in Python 2.
    #[error("{path}:{line}: Python 2 ({sign}); the file is left out")]
    Python2 {
        /// The file.
        path: String,
        /// The line of the sign.
        line: u64,
        /// What gave it away.
        sign: String,
    },
    /// Its bytes are not UTF-8.
    #[error("{path}: not UTF-8; the file is left out")]
    Encoding {
        /// The file.
        path: String,
    },
    /// It is too large.
    #[error("{path}: {bytes} bytes: data rather than code; the file is left out")]
    Large {
        /// The file.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// It is JSON, but no model's configuration that can be read.
    #[error("{path}: {error}; the file is left out")]
    Configuration {
        /// The file.
        path: String,
        /// Why not.
        error: String,
    },
    /// It is nested too deeply.
    #[error("{path}: nested too deeply to be code; the file is left out")]
    Nested {
        /// The file.
        path: String,
    },
}

impl SourceNote {
    /// A stable key.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "python-syntax",
            Self::Python2 { .. } => "python-2",
            Self::Encoding { .. } => "python-encoding",
            Self::Large { .. } => "python-large",
            Self::Nested { .. } => "python-nested",
            Self::Configuration { .. } => "model-config",
        }
    }
}

impl SourceFile {
    /// Parses a file.
    ///
    /// # Errors
    /// When it is not Python 3 in UTF-8, or too large or too deeply nested to be code.
    pub fn parse(path: &str, bytes: Vec<u8>) -> Result<Self, SourceNote> {
        let path = path.to_owned();
        if bytes.len() > MAX_BYTES {
            let bytes = bytes.len();
            return Err(SourceNote::Large { path, bytes });
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(SourceNote::Encoding { path });
        };
        let nesting = Nesting::of(&text);
        if nesting.brackets > MAX_BRACKETS
            || nesting.blocks > MAX_BLOCKS
            || nesting.chain > MAX_CHAIN
        {
            return Err(SourceNote::Nested { path });
        }
        let lines = LineIndex::from_source_text(&text);
        match parse_module(&text) {
            Ok(parsed) => Ok(Self {
                path,
                text,
                parsed,
                lines,
            }),
            Err(error) => {
                let line = lines.line_index(error.location.start()).get() as u64;
                let words = text.lines().nth((line as usize).saturating_sub(1));
                Err(match python2_sign(words.unwrap_or_default()) {
                    Some(sign) => SourceNote::Python2 {
                        path,
                        line,
                        sign: sign.to_owned(),
                    },
                    None => SourceNote::Syntax {
                        path,
                        line,
                        error: error.error.to_string(),
                    },
                })
            }
        }
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &ModModule {
        self.parsed.syntax()
    }

    /// The tokens, comments among them.
    #[must_use]
    pub fn tokens(&self) -> &ruff_python_ast::token::Tokens {
        self.parsed.tokens()
    }

    /// The line of an offset, from 1.
    #[must_use]
    pub fn line_of(&self, offset: TextSize) -> u64 {
        self.lines.line_index(offset).get() as u64
    }

    /// The range of a line, its end included.
    #[must_use]
    pub fn line_range(&self, line: u64) -> TextRange {
        let line = usize::try_from(line).ok().and_then(OneIndexed::new);
        self.lines
            .line_range(line.unwrap_or(OneIndexed::MIN), &self.text)
    }

    /// The text of a line, without its end.
    #[must_use]
    pub fn line_text(&self, line: u64) -> &str {
        let range = std::ops::Range::<usize>::from(self.line_range(line));
        self.text
            .get(range)
            .unwrap_or_default()
            .trim_end_matches(['\r', '\n'])
    }

    /// The place of a range.
    #[must_use]
    pub fn place(&self, range: TextRange, label: impl Into<String>) -> Place {
        let start = self.lines.line_column(range.start(), &self.text);
        let end = self.lines.line_column(range.end(), &self.text);
        let line = start.line.get() as u64;
        Place {
            file: self.path.clone(),
            line,
            column: start.column.get() as u64,
            end_line: end.line.get() as u64,
            end_column: end.column.get() as u64,
            snippet: self.line_text(line).to_owned(),
            label: label.into(),
        }
    }

    /// The comments, in order.
    pub fn comments(&self) -> impl Iterator<Item = TextRange> + '_ {
        self.tokens()
            .iter()
            .filter(|token| token.kind().is_comment())
            .map(ruff_text_size::Ranged::range)
    }
}

/// What in a line tells of Python 2, where it does not parse as Python 3.
fn python2_sign(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let statement = |word: &str| {
        line.strip_prefix(word).is_some_and(|rest| {
            rest.starts_with([' ', '\t']) && !rest.trim_start().starts_with(['=', '('])
        })
    };
    if statement("print") {
        Some("print is a statement")
    } else if statement("exec") {
        Some("exec is a statement")
    } else if line.starts_with("except") && line.contains(',') && !line.contains('(') {
        Some("except E, name")
    } else if statement("raise") && line.contains(',') {
        Some("raise E, message")
    } else if line.contains("<>") {
        Some("the operator <>")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{SourceFile, SourceNote};

    fn parse(text: &str) -> Result<SourceFile, SourceNote> {
        SourceFile::parse("a.py", text.as_bytes().to_vec())
    }

    #[test]
    fn bad_files_are_notes() {
        let code = |text: &str| parse(text).err().map(|note| note.code());
        assert_eq!(code("print 'x'\n"), Some("python-2"));
        assert_eq!(
            code("try:\n  pass\nexcept E, e:\n  print e\n"),
            Some("python-2")
        );
        assert_eq!(code("def f(:\n"), Some("python-syntax"));
        assert_eq!(code(&"(".repeat(100_000)), Some("python-nested"));
        assert_eq!(
            code(&format!("x = {}1", "-".repeat(1_000_000))),
            Some("python-nested")
        );
        assert_eq!(
            code(&format!("x = {}", "1 + ".repeat(1_000_000))),
            Some("python-nested")
        );
        assert_eq!(code("x = 1\n"), None);
        let latin = SourceFile::parse("a.py", b"x = '\xe9'".to_vec());
        assert_eq!(latin.err().map(|note| note.code()), Some("python-encoding"));
    }

    /// Texts that nest as deeply as is let through, and far deeper.
    fn deep(times: usize) -> Vec<String> {
        let blocks: String = (0..times.min(2000))
            .map(|level| format!("{}if x:\n", " ".repeat(level)))
            .collect();
        vec![
            format!("x = {}1{}\n", "(".repeat(times), ")".repeat(times)),
            format!("x = {}1{}\n", "[".repeat(times), "]".repeat(times)),
            format!("x = {}1\n", "-".repeat(times)),
            format!("x = {}1\n", "not ".repeat(times)),
            format!("x = {}0\n", "lambda: ".repeat(times)),
            format!("x = {}0\n", "lambda a, b: ".repeat(times)),
            format!("x = y{}\n", "(1)".repeat(times)),
            format!("x = y{}\n", "[0]".repeat(times)),
            format!("x = y{}\n", ".y".repeat(times)),
            format!("x = {}1\n", "1 if y else ".repeat(times)),
            format!("x = 1{}\n", " - ''".repeat(times)),
            format!("x = 1{}\n", " ** 1".repeat(times)),
            format!("x = f'{{{}1}}'\n", "-".repeat(times)),
            format!("{blocks}{}pass\n", " ".repeat(times.min(2000))),
            format!(
                "match x:\n case {}_{}: pass\n",
                "[".repeat(times),
                "]".repeat(times)
            ),
            format!("x = 1 + \\\n{}1\n", "1 + \\\n".repeat(times)),
            format!("if x: pass\n{}", "elif x: pass\n".repeat(times)),
        ]
    }

    /// Parsed, indexed, checked and released, each on a pool's thread.
    #[test]
    fn deep_texts_are_read_or_turned_away() {
        for times in [90, 199, 990, 100_000] {
            for text in deep(times) {
                let project = crate::python::Project::default();
                let files = vec![("a.py".to_owned(), text.into_bytes())];
                let checked = crate::python::check(&project, files, crate::registry::RULES);
                assert_eq!(checked.files + checked.notes.len(), 1);
                assert!(
                    times > 90 || checked.notes.is_empty(),
                    "{:?}",
                    checked.notes
                );
            }
        }
    }

    #[test]
    fn a_long_line_is_read() {
        let text = format!("import torch\nx = [{}]\n", "-1.5, ".repeat(180_000));
        let project = crate::python::Project::default();
        let files = vec![("a.py".to_owned(), text.into_bytes())];
        let checked = crate::python::check(&project, files, crate::registry::RULES);
        assert_eq!((checked.files, checked.findings.len()), (1, 0));
    }

    #[test]
    fn places_are_exact() {
        let file = parse("a = 1\nb = \u{e9}(2)\n").expect("parses");
        let range = file.module().body[1]
            .as_assign_stmt()
            .expect("an assignment")
            .value
            .range();
        let place = file.place(range, "");
        assert_eq!((place.line, place.column, place.end_column), (2, 5, 9));
        assert_eq!(place.snippet, "b = \u{e9}(2)");
    }

    use ruff_text_size::Ranged as _;
}
