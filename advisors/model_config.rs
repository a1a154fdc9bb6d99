//! A model's configuration as a file: its text, what it describes, and where each field stands.

use profiler::model::places::{self, JsonField};
use profiler::model::{ConfigError, Decoder};

use crate::finding::Place;

/// Files larger than this are data, not a configuration.
const MAX_BYTES: usize = 1 << 20;

/// A `config.json`, read.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The path as it is shown.
    pub path: String,
    /// The text.
    pub text: String,
    /// What it describes.
    pub decoder: Decoder,
    fields: Vec<JsonField>,
}

impl ModelConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is no configuration of a decoder whose parameters can be counted.
    pub fn parse(path: &str, bytes: Vec<u8>) -> Result<Self, ConfigError> {
        if bytes.len() > MAX_BYTES {
            return Err(ConfigError::Other);
        }
        let text = String::from_utf8(bytes).map_err(|_| ConfigError::Other)?;
        Ok(Self {
            path: path.to_owned(),
            decoder: Decoder::parse(&text)?,
            fields: places::fields(&text),
            text,
        })
    }

    /// The place of the first of some fields that is there: that of a nested model where there is
    /// one, which is what [`Decoder::parse`] reads.
    #[must_use]
    pub fn place(&self, names: &[&str], label: &str) -> Option<Place> {
        let named = |field: &&JsonField| {
            let (outer, name) = field.path.rsplit_once('.').unwrap_or(("", &field.path));
            let other = ["vision", "audio", "encoder", "speech"];
            names.contains(&name) && !other.iter().any(|other| outer.contains(other))
        };
        let field = self
            .fields
            .iter()
            .filter(named)
            .max_by_key(|field| field.path.contains("text_config"))?;
        let before = self.text.get(..field.start)?;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let snippet = self.text.get(line_start..)?.lines().next()?;
        let column = |byte: usize| {
            let words = self.text.get(line_start..byte).unwrap_or_default();
            words.chars().count() as u64 + 1
        };
        let line = before.matches('\n').count() as u64 + 1;
        let is_one_line = field.end <= line_start + snippet.len();
        Some(Place {
            file: self.path.clone(),
            line,
            column: column(field.start),
            end_line: line,
            end_column: if is_one_line { column(field.end) } else { 0 },
            snippet: snippet.to_owned(),
            label: label.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ModelConfig;

    #[test]
    fn a_nested_models_field_is_found_in_its_own_line() {
        let text = include_str!("../tests/fixtures/models/gemma_3_4b.json");
        let config = ModelConfig::parse("config.json", text.into()).expect("a fixture");
        let place = config.place(&["hidden_size"], "width").expect("there");
        assert_eq!(place.snippet.trim(), "\"hidden_size\": 2560,");
        let line = text.lines().nth(place.line as usize - 1);
        assert_eq!(line, Some(place.snippet.as_str()));
        let cut: String = place
            .snippet
            .chars()
            .skip(place.column as usize - 1)
            .take((place.end_column - place.column) as usize)
            .collect();
        assert_eq!(cut, "\"hidden_size\": 2560");
        assert_eq!(config.place(&["absent"], ""), None);
    }
}
