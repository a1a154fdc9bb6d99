//! `check`: shapes.

use crate::cli::Folder;

#[test]
fn python_and_configurations_of_a_folder_are_read_together() {
    let folder = Folder::new();
    folder.write(
        "project/train.py",
        b"import torch.nn as nn\nblock_size = 1023\nwte = nn.Embedding(50257, 1200)\n",
    );
    let gpt2 = include_str!("../fixtures/models/gpt2.json");
    folder.write("project/model/config.json", gpt2.as_bytes());
    folder.write("project/data.json", b"{\"hidden_size\": 7}");
    let report = folder.run(&["check", "project", "--format", "json"]).json();
    let findings = report["findings"].as_array().expect("findings");
    let found: Vec<(&str, &str, u64)> = findings
        .iter()
        .filter(|finding| {
            finding["code"]
                .as_str()
                .is_some_and(|code| code.starts_with("TS4"))
        })
        .map(|finding| {
            let place = &finding["places"][0];
            (
                finding["code"].as_str().expect("a code"),
                place["file"].as_str().expect("a file"),
                place["line"].as_u64().expect("a line"),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("TS401", "project/train.py", 3),
            ("TS401", "project/model/config.json", 6),
            ("TS402", "project/train.py", 3),
            ("TS403", "project/train.py", 2),
            ("TS404", "project/model/config.json", 10),
        ]
    );
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn json_that_is_named_and_is_no_configuration_is_a_note() {
    let folder = Folder::new();
    folder.write("data.json", b"{\"hidden_size\": 7}");
    let text = folder.run(&["check", "data.json"]).ok();
    assert!(text.contains("not a model's configuration"), "{text}");
}
