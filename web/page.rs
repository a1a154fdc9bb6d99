//! Templates, and the one formatter that every value goes through.

use std::sync::LazyLock;

use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, Output, State, UndefinedBehavior, escape_formatter,
};
use profiler::units::{Bytes, percent, seconds, with_digits};

use crate::text::{clean, count, short, tail};
use crate::view::Page;

const TEMPLATES: [(&str, &str); 12] = [
    ("page.html", include_str!("templates/page.html")),
    ("macros.html", include_str!("templates/macros.html")),
    ("header.html", include_str!("templates/header.html")),
    ("breakdown.html", include_str!("templates/breakdown.html")),
    ("findings.html", include_str!("templates/findings.html")),
    ("roofline.html", include_str!("templates/roofline.html")),
    ("timeline.html", include_str!("templates/timeline.html")),
    ("operations.html", include_str!("templates/operations.html")),
    ("programs.html", include_str!("templates/programs.html")),
    ("notes.html", include_str!("templates/notes.html")),
    (
        "text_header.html",
        include_str!("templates/text_header.html"),
    ),
    ("xprof.html", include_str!("templates/xprof.html")),
];

static ENVIRONMENT: LazyLock<Result<Environment<'static>, Error>> = LazyLock::new(environment);

/// The page as HTML.
pub(crate) fn render(page: &Page<'_>) -> String {
    try_render(page).unwrap_or_else(|error| {
        let mut message = format!("{error:#}");
        message.retain(|c| !matches!(c, '<' | '>' | '&' | '"' | '\''));
        format!("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\" /><title>tpu-tune</title></head><body><p>the report could not be written as HTML ({message}); please report this, and use --format json meanwhile</p></body></html>\n")
    })
}

fn try_render(page: &Page<'_>) -> Result<String, Error> {
    match &*ENVIRONMENT {
        Ok(environment) => environment.get_template("page.html")?.render(Serde(page)),
        Err(error) => Err(Error::new(error.kind(), error.to_string())),
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = environment.syntax().to_builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(format_safely);
    environment.add_filter("short", |text: &str, max: usize| {
        short(text, max).into_owned()
    });
    environment.add_filter("tail", |text: &str, max: usize| {
        tail(text, max).into_owned()
    });
    environment.add_filter("fixed", fixed);
    environment.add_filter("percent", |value: &Value| number(value, percent));
    environment.add_filter("ms", |value: &Value| {
        number(value, |ms| with_digits(ms, "ms"))
    });
    environment.add_filter("seconds", |value: &Value| number(value, seconds));
    environment.add_filter("unit", in_unit);
    environment.add_filter("bytes", |value: &Value| {
        number(value, |bytes| Bytes(bytes as u64).to_string())
    });
    environment.add_filter("count", |value: &Value| number(value, count));
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    Ok(environment)
}

/// Every string is cleaned of characters that hide or reorder text, then escaped.
fn format_safely(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    if value.kind() == ValueKind::String
        && !value.is_safe()
        && let Some(text) = value.as_str()
    {
        let cleaned = Value::from(clean(text).into_owned());
        return escape_formatter(out, state, &cleaned);
    }
    escape_formatter(out, state, value)
}

/// A figure, or a dash where there is none.
fn number(value: &Value, show: impl Fn(f64) -> String) -> String {
    match f64::try_from(value.clone()) {
        // Adding zero makes the negative zero of an empty sum positive.
        Ok(number) if number.is_finite() => show(number + 0.0),
        _ => "–".to_owned(),
    }
}

/// So many decimals, for columns.
fn fixed(value: &Value, decimals: usize) -> String {
    number(value, |number| format!("{number:.decimals$}"))
}

/// A figure with its unit.
fn in_unit(value: &Value, unit: &str) -> String {
    match unit {
        "bytes" => number(value, |bytes| Bytes(bytes as u64).to_string()),
        "" => number(value, count),
        unit => number(value, |number| with_digits(number, unit)),
    }
}
