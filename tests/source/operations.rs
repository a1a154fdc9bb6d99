//! `check`: operations that are slow on a TPU.

use crate::cli::Folder;

#[test]
fn slow_operations_of_a_step_are_told_and_fixed_where_the_fix_is_exact() {
    let folder = Folder::new();
    let text = "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x, mask: torch.Tensor):\n        x[mask] = 0.0  # padding\n        return x, torch.nonzero(mask)\n";
    folder.write("m.py", text.as_bytes());
    let report = folder.run(&["check", "m.py", "--format", "json"]).json();
    let findings = report["findings"].as_array().expect("a list");
    let codes: Vec<&str> = findings.iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(
        codes.contains(&"TS320") && codes.contains(&"TS321"),
        "{codes:?}"
    );
    let place = &findings[0]["places"][0];
    assert_eq!(place["file"], "m.py");

    folder.run(&["check", "m.py", "--unsafe-fixes"]).ok();
    let fixed = std::fs::read_to_string(folder.path().join("m.py")).expect("still there");
    assert!(
        fixed.contains("# padding") && !fixed.contains("x[mask] = 0.0"),
        "{fixed}"
    );
    assert!(
        fixed.contains("torch.nonzero(mask)"),
        "it has no exact substitute: {fixed}"
    );
}

#[test]
fn the_same_operations_outside_of_steps_are_left_alone() {
    let folder = Folder::new();
    let text = "import numpy as np\n\ndef clean(rows):\n    rows[rows < 0] = 0\n    return np.nonzero(rows)\n";
    folder.write("prepare.py", text.as_bytes());
    let report = folder
        .run(&["check", "prepare.py", "--format", "json"])
        .json();
    assert_eq!(report["findings"], serde_json::json!([]));
}
