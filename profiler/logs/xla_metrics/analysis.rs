//! Debug analyses: which graph was compiled or executed, why, and from which Python line.

use crate::logs::{At, Line};

/// Analyses that are kept of a file.
const MAX_KEPT: usize = 2048;
/// Frames, sizes and characters that are kept of one.
const MAX_FRAMES: usize = 16;
const MAX_SIZES: usize = 8;
const MAX_CHARS: usize = 300;

/// What an analysis is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnalysisKind {
    /// A graph was compiled.
    Compilation,
    /// A graph was executed.
    Execution,
}

/// A Python frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub function: String,
    /// `file:line`.
    pub source: String,
}

impl Frame {
    /// Whether it is the user's own code, as far as paths tell.
    #[must_use]
    pub fn is_user_code(&self) -> bool {
        let packages = [
            "/torch_xla/",
            "/torch/",
            "site-packages",
            "dist-packages",
            "/lib/python",
        ];
        !packages.iter().any(|package| self.source.contains(package))
    }
}

/// An analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Where it begins.
    pub at: At,
    /// What it is of.
    pub kind: AnalysisKind,
    /// The cause as the text states it.
    pub cause: String,
    /// The hash of the graph.
    pub hash: String,
    /// Inputs of the graph.
    pub inputs: Option<u64>,
    /// Outputs of the graph.
    pub outputs: Option<u64>,
    /// Python frames, the innermost first.
    pub frames: Vec<Frame>,
    /// What the post-compilation analysis says: name and size with its unit.
    pub sizes: Vec<(String, String)>,
}

impl Analysis {
    /// The innermost frame of the user's own code, else the innermost.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.frames
            .iter()
            .find(|frame| frame.is_user_code())
            .or(self.frames.first())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    None,
    Cause,
    Graph,
    Frames,
}

/// Reads analyses.
#[derive(Debug, Default)]
pub(super) struct AnalysisReader {
    analyses: Vec<Analysis>,
    count: u64,
    current: Option<Analysis>,
    part: Part,
}

impl AnalysisReader {
    /// Reads a line with ` Analysis:` in it.
    pub(super) fn line(&mut self, line: Line<'_>) {
        let Some((before, said)) = line.text.split_once(" Analysis:") else {
            return;
        };
        if before.ends_with("Post Compilation") {
            self.close();
            self.size(said);
            return;
        }
        let kind = if before.ends_with("Compilation") {
            AnalysisKind::Compilation
        } else if before.ends_with("Execution") {
            AnalysisKind::Execution
        } else {
            return;
        };
        let said = said.trim();
        match said {
            "Compilation Cause" | "Execution Cause" => {
                self.close();
                self.part = Part::Cause;
                self.current = Some(Analysis {
                    at: line.at,
                    kind,
                    cause: String::new(),
                    hash: String::new(),
                    inputs: None,
                    outputs: None,
                    frames: Vec::new(),
                    sizes: Vec::new(),
                });
            }
            "Graph Info:" => self.part = Part::Graph,
            _ if said.starts_with("Python Frame") => self.part = Part::Frames,
            _ if said.starts_with("---") || said.starts_with("===") => self.close(),
            _ => self.detail(said),
        }
    }

    fn detail(&mut self, said: &str) {
        let Some(current) = &mut self.current else {
            return;
        };
        let value = || said.rsplit_once(": ").map(|(_, value)| value.trim());
        match self.part {
            Part::Cause if current.cause.is_empty() => current.cause = short(said),
            Part::Graph if said.starts_with("Graph Hash") => {
                current.hash = value().map(short).unwrap_or_default();
            }
            Part::Graph if said.contains("Inputs") => {
                current.inputs = value().and_then(|value| value.parse().ok());
            }
            Part::Graph if said.contains("Outputs") => {
                current.outputs = value().and_then(|value| value.parse().ok());
            }
            Part::Frames if current.frames.len() < MAX_FRAMES => {
                if let Some((function, source)) = said.rsplit_once(" (") {
                    current.frames.push(Frame {
                        function: short(function.trim()),
                        source: short(source.trim_end_matches(')')),
                    });
                }
            }
            _ => {}
        }
    }

    fn size(&mut self, said: &str) {
        let Some(last) = self.analyses.last_mut() else {
            return;
        };
        let named = said.trim().split_once(": ");
        if let Some((name, size)) = named.filter(|_| last.sizes.len() < MAX_SIZES) {
            last.sizes.push((short(name), short(size.trim())));
        }
    }

    fn close(&mut self) {
        self.part = Part::None;
        if let Some(analysis) = self.current.take() {
            self.count += 1;
            if self.analyses.len() < MAX_KEPT {
                self.analyses.push(analysis);
            }
        }
    }

    /// All analyses that were kept, and how many there were.
    pub(super) fn finish(mut self) -> (Vec<Analysis>, u64) {
        self.close();
        (self.analyses, self.count)
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}
