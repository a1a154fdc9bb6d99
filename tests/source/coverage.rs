//! `check` and `coverage`: operators that TorchTPU has or lacks.

use std::path::Path;

use crate::cli::Folder;

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/python/coverage");
    root.join(name).display().to_string()
}

#[test]
fn an_exported_program_and_its_printed_graph_agree() {
    let folder = Folder::new();
    let of = |name: &str| {
        let ran = folder.run(&["coverage", &fixture(name), "--format", "json"]);
        let value = ran.json();
        value["operators"].as_array().expect("a list").clone()
    };
    let program = of("model.pt2");
    assert_eq!(program, of("model.txt"));
    let missing: Vec<&str> = program
        .iter()
        .filter(|row| row["support"] == "unsupported")
        .filter_map(|row| row["operator"].as_str())
        .collect();
    assert_eq!(
        missing,
        ["huber_loss.default", "median.default", "mish.default"]
    );
    let pool = program
        .iter()
        .find(|row| row["operator"] == "adaptive_max_pool2d.default");
    let pool = pool.expect("the model pools");
    assert_eq!(pool["missing_gradient"], "adaptive_max_pool2d_backward");
}

#[test]
fn sources_are_counted_where_they_are_certain() {
    let folder = Folder::new();
    let text = "import torch\nimport numpy as np\nx = torch.relu(torch.ones(3))\ny = np.median(x)\n\
                z = x.kthvalue(2)\nw = x.median()\n";
    folder.write("a.py", text.as_bytes());
    let value = folder.run(&["coverage", "a.py", "--format", "json"]).json();
    let operators: Vec<&str> = value["operators"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["operator"].as_str())
        .collect();
    assert_eq!(operators, ["kthvalue", "ones", "relu"]);
}

#[test]
fn a_damaged_program_is_an_error_that_says_so() {
    let folder = Folder::new();
    folder.write("model.pt2", b"PK\x03\x04 and no directory");
    let ran = folder.run(&["coverage", "model.pt2"]);
    ran.refused(&["cannot read model.pt2", "not a zip archive"]);
}

#[test]
fn an_unsupported_operator_is_named_with_its_substitute() {
    let folder = Folder::new();
    let text = "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n        \
                return torch.trace(x) + x.cpu().kthvalue(1).values\n";
    folder.write("a.py", text.as_bytes());
    let report = folder.run(&["check", "a.py", "--format", "json"]).json();
    let found = report["findings"].as_array().expect("a list");
    assert!(
        found.iter().all(|finding| finding["code"] != "TS601"),
        "the statement computes on the host: {found:?}"
    );

    folder.write("a.py", text.replace("x.cpu().", "x.").as_bytes());
    folder.run(&["check", "a.py", "--unsafe-fixes"]).ok();
    let fixed = std::fs::read_to_string(folder.path().join("a.py")).expect("still there");
    assert!(
        fixed.contains("(torch.diagonal(x).sum()) + x.kthvalue(1).values"),
        "{fixed}"
    );
}
