//! What people see, as snapshots. To accept a change after reading it, run the tests with
//! `INSTA_UPDATE=always`.

use clap::CommandFactory as _;

use super::Folder;
use super::diff::with_faster_copies;
use crate::support::{scenarios, xspace};

macro_rules! assert_screen {
    ($name:expr, $text:expr) => {
        insta::with_settings!({
            snapshot_path => "../snapshots",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

fn commands() -> Vec<String> {
    let cli = tpu_tune::cli::Cli::command();
    let names = cli
        .get_subcommands()
        .map(|command| command.get_name().to_owned());
    names.filter(|name| name != "help").collect()
}

#[test]
fn help_fits_eighty_columns() {
    let folder = Folder::new();
    let mut screens = vec![folder.run(&["--help"]).ok(), folder.run(&["-h"]).ok()];
    for command in commands() {
        for help in ["--help", "-h"] {
            screens.push(folder.run(&[&command, help]).ok());
        }
    }
    assert!(screens.len() > 12);
    for line in screens.iter().flat_map(|screen| screen.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn help_screens() {
    let folder = Folder::new();
    assert_screen!("help", folder.run(&["--help"]).ok());
    for command in commands() {
        let screen = folder.run(&[&command, "-h"]).ok();
        assert_screen!(format!("help_{command}"), screen);
    }
}

#[test]
fn reports() {
    for (name, profile) in [
        ("host_offload", scenarios::host_offload()),
        ("train_step_fsdp", scenarios::train_step_fsdp()),
    ] {
        let folder = Folder::with(&profile);
        let analyze = folder.run(&["analyze", "run.xplane.pb"]).ok();
        assert_screen!(format!("analyze_{name}"), analyze);
        let ops = folder.run(&["ops", "run.xplane.pb", "-n", "12"]).ok();
        assert_screen!(format!("ops_{name}"), ops);
        assert_screen!(
            format!("steps_{name}"),
            folder.run(&["steps", "run.xplane.pb"]).ok()
        );
    }
}

#[test]
fn a_comparison() {
    let before = scenarios::host_offload();
    let after = with_faster_copies(&before);
    let folder = Folder::with(&before);
    folder.write("fast.xplane.pb", &xspace::to_bytes(&after));
    let args = ["diff", "run.xplane.pb", "fast.xplane.pb", "-n", "8"];
    assert_screen!("diff", folder.run(&args).ok());
    let markdown = [&args[..], &["--format", "markdown"]].concat();
    assert_screen!("diff_markdown", folder.run(&markdown).ok());
}

#[test]
fn errors() {
    let folder = Folder::new();
    folder.write("empty.xplane.pb", b"");
    folder.write("notes.txt", b"not a profile");
    let screens: Vec<String> = ["empty.xplane.pb", "notes.txt", "missing", "."]
        .iter()
        .map(|path| folder.run(&["analyze", path]).err)
        .collect();
    assert_screen!("errors", screens.join("\n"));
}
