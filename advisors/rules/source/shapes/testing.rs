//! What one rule says of a text.

use crate::finding::{Finding, Remark};
use crate::model_config::ModelConfig;
use crate::python::{Project, check};

/// Of Python source.
pub(crate) fn in_source(code: &str, text: &str) -> Vec<Finding> {
    let rule = crate::registry::find(code).expect("registered");
    let files = vec![("a.py".to_owned(), text.as_bytes().to_vec())];
    check(&Project::default(), files, &[rule]).findings
}

/// Of a configuration.
pub(crate) fn in_config(code: &str, text: &str) -> Vec<Remark> {
    let rule = crate::registry::find(code).expect("registered");
    let config = ModelConfig::parse("config.json", text.into()).expect("a configuration");
    rule.check_config(&config)
}
