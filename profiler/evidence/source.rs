//! Where an operation comes from: the line of the user's own code, and the framework's scope.
//!
//! The innermost frame is often in a library (a module's `__call__`, a tensor's operator), which
//! says nothing of the model. The first frame outside installed packages does.

use crate::session::Op;

/// Parts of paths and pseudo files under which nobody keeps the program that they tune.
const INSTALLED: [&str; 4] = [
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "/lib64/python3",
];

/// Whether a frame is in an installed package, Python's own library or nowhere on disk
/// (`<frozen importlib>`, `<embedded>`).
#[must_use]
pub fn is_installed(frame: &str) -> bool {
    frame.starts_with('<') || INSTALLED.iter().any(|part| frame.contains(part))
}

/// The line of an operation as `file:line`: of its stack the innermost that is not of an installed
/// package, else the line that the profile gives. `None` where it gives none. The whole stack
/// stays in [`Op::source_stack`].
#[must_use]
pub fn own_line(op: &Op) -> Option<&str> {
    let own = || {
        let mut frames = op.source_stack.lines().map(str::trim);
        frames.find(|frame| !frame.is_empty() && !is_installed(frame))
    };
    let given = Some(op.source.as_str()).filter(|line| !line.is_empty());
    match given {
        Some(line) if !is_installed(line) => Some(line),
        _ => own().map(without_column).or(given),
    }
}

/// `file:line` of `file:line:column`.
fn without_column(frame: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match frame.rsplit_once(':') {
        Some((line, column))
            if is_number(column)
                && line
                    .rsplit_once(':')
                    .is_some_and(|(_, number)| is_number(number)) =>
        {
            line
        }
        _ => frame,
    }
}

/// The framework's op without its last part and without layer numbers, so that equal layers meet:
/// `jit(step)/layers_3/mlp/dot_general:` is of the scope `jit(step)/layers_*/mlp`.
#[must_use]
pub fn scope(framework_op: &str) -> String {
    let trimmed = framework_op.trim_end_matches(':');
    let parts = trimmed.rsplit_once('/').map_or("", |(scope, _)| scope);
    let without_number = |part: &str| {
        let bare = part.trim_end_matches(|c: char| c.is_ascii_digit());
        if bare.len() < part.len() && bare.ends_with(['_', '.']) {
            format!("{bare}*")
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<String> = parts.split('/').map(without_number).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: &str, stack: &str) -> Option<String> {
        let op = Op {
            source: source.to_owned(),
            source_stack: stack.to_owned(),
            ..Op::default()
        };
        own_line(&op).map(str::to_owned)
    }

    #[test]
    fn the_innermost_line_outside_installed_packages_is_the_users_own() {
        let stack = "/env/lib/python3.12/site-packages/torch/module.py:1775:19\n\
                     /usr/lib/python3.12/functools.py:22:3\n<frozen runpy>:88:1\n\
                     /home/me/model/mlp.py:40:12\n/home/me/train.py:7:1";
        let given = "/env/lib/python3.12/site-packages/torch/module.py:1775";
        assert_eq!(
            line(given, stack).as_deref(),
            Some("/home/me/model/mlp.py:40")
        );
        assert_eq!(line("", stack).as_deref(), Some("/home/me/model/mlp.py:40"));
    }

    #[test]
    fn the_given_line_stands_where_it_is_the_users_or_nothing_else_is() {
        let stack = "/home/me/deeper.py:1:2\n/home/me/outer.py:3:4";
        assert_eq!(
            line("/home/me/own.py:9", stack).as_deref(),
            Some("/home/me/own.py:9")
        );
        let library = "/env/site-packages/jax/core.py:5";
        assert_eq!(line(library, library).as_deref(), Some(library));
        assert_eq!(line("", ""), None);
    }

    #[test]
    fn a_frame_without_a_column_keeps_its_line() {
        assert_eq!(
            line("", "/home/me/own.py:9").as_deref(),
            Some("/home/me/own.py:9")
        );
        assert_eq!(
            line("", "C:\\me\\own.py:9:1").as_deref(),
            Some("C:\\me\\own.py:9")
        );
    }

    #[test]
    fn layers_of_a_model_share_a_scope() {
        assert_eq!(
            scope("jit(step)/layers_3/mlp/dot_general:"),
            "jit(step)/layers_*/mlp"
        );
        assert_eq!(scope("add"), "");
    }
}
