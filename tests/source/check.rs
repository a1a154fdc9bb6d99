//! `check` as a command: which files it reads, what it says of those that it cannot, what it writes.

use serde_json::Value;

use crate::cli::Folder;

fn report(folder: &Folder, args: &[&str]) -> Value {
    let ran = folder.run(&[&["check", "--format", "json"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

fn inputs(report: &Value) -> Vec<&str> {
    let inputs = report["inputs"].as_array().expect("inputs");
    inputs
        .iter()
        .filter_map(|input| input["path"].as_str())
        .collect()
}

#[test]
fn folders_are_searched_for_what_is_the_projects_own() {
    let folder = Folder::new();
    for path in [
        "src/a.py",
        "src/deep/er/b.py",
        "src/data.txt",
        "src/.hidden/c.py",
        "src/venv/lib/d.py",
        "src/generated/e.py",
        "other/f.py",
    ] {
        folder.write(path, b"x = 1\n");
    }
    folder.write("src/.gitignore", b"generated/\n");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("other"), folder.path().join("src/link"))
        .expect("a link");
    let found = report(&folder, &["src"]);
    assert_eq!(inputs(&found), ["src/a.py", "src/deep/er/b.py"]);
    assert_eq!(found["origin"], "source");
    // What is named is read, whatever its name.
    folder.write("script", b"x = 1\n");
    assert_eq!(inputs(&report(&folder, &["script"])), ["script"]);
}

#[test]
fn files_that_cannot_be_read_as_python_are_notes() {
    let folder = Folder::new();
    folder.write("two.py", b"print 'hello'\n");
    folder.write("broken.py", b"def f(:\n");
    folder.write("latin.py", b"x = '\xe9'\n");
    folder.write("deep.py", "(".repeat(200_000).as_bytes());
    folder.write(
        "unary.py",
        format!("x = {}1", "-".repeat(500_000)).as_bytes(),
    );
    folder.write("nul.py", b"x = 1\0\n");
    folder.write("empty.py", b"");
    let found = report(&folder, &["."]);
    let notes = found["notes"].as_array().expect("notes");
    let codes: Vec<&str> = notes
        .iter()
        .filter_map(|note| note["code"].as_str())
        .collect();
    for code in [
        "python-2",
        "python-syntax",
        "python-encoding",
        "python-nested",
    ] {
        assert!(codes.contains(&code), "{code} is not in {codes:?}");
    }
    let two = notes
        .iter()
        .find(|note| note["code"] == "python-2")
        .expect("a note");
    assert_eq!(
        two["message"],
        "two.py:1: Python 2 (print is a statement); the file is left out"
    );
}

#[test]
fn a_version_that_is_not_known_is_refused() {
    let folder = Folder::new();
    folder.write("a.py", b"x = 1\n");
    for command in ["check", "coverage"] {
        let ran = folder.run(&[command, "a.py", "--torch-tpu", "9.9.9"]);
        ran.refused(&["9.9.9", "known are 0.2.0"]);
    }
}

#[test]
fn a_patch_applies_with_git_and_changes_nothing_by_itself() {
    let folder = Folder::new();
    let before = "import torch\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    optimizer.step()\n    total += loss.item()  # shown";
    let path = folder.write("src/train.py", before.as_bytes());
    let patch = folder
        .run(&["check", "src", "--unsafe-fixes", "--diff"])
        .ok();
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), before);
    let patch = folder.write("fix.patch", patch.as_bytes());
    let applied = std::process::Command::new("git")
        .args(["apply", "--unsafe-paths"])
        .arg(&patch)
        .current_dir(folder.path())
        .status();
    assert!(applied.expect("git runs").success());
    let after = std::fs::read_to_string(&path).expect("still there");
    assert!(
        after.ends_with("total += loss.detach()  # shown"),
        "{after}"
    );
    folder.run(&["check", "src", "--unsafe-fixes"]).ok();
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), after);
}

#[test]
fn paths_that_hold_nothing_are_errors() {
    let folder = Folder::new();
    folder.write("docs/readme.md", b"# x\n");
    let ran = folder.run(&["check", "docs"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("docs holds no Python file (*.py)"),
        "{}",
        ran.err
    );
    let ran = folder.run(&["check", "missing"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("cannot read missing"), "{}", ran.err);
}
