//! `check`: host synchronisation. The command finds reads in every step, and its fixes hold.

use crate::cli::Folder;

const TRAIN: &str = "\
import torch
total = 0.0
for step, batch in enumerate(loader):
    loss = model(batch).loss
    loss.backward()
    total += loss.item()
    bar.set_postfix(loss=loss.item())
    print(f'step {step} loss {loss:.3f}')
";

#[test]
fn reads_in_every_step_are_found_and_fixed_when_asked() {
    let folder = Folder::new();
    let path = folder.write("train.py", TRAIN.as_bytes());
    let said = folder.run(&["check", "train.py"]).out;
    for code in ["TS201", "TS203", "TS204"] {
        assert!(said.contains(code), "{code}: {said}");
    }
    folder.run(&["check", "--fix", "train.py"]);
    assert_eq!(std::fs::read_to_string(&path).expect("UTF-8"), TRAIN);
    folder.run(&["check", "--unsafe-fixes", "train.py"]);
    let after = std::fs::read_to_string(&path).expect("UTF-8");
    let expected = TRAIN
        .replace("total += loss.item()", "total += loss.detach()")
        .replace(
            "    bar.set_postfix(loss=loss.item())",
            "    if step % 100 == 0:\n        bar.set_postfix(loss=loss.item())",
        );
    assert_eq!(after, expected);
}

#[test]
fn a_guarded_fill_is_freed_safely() {
    let folder = Folder::new();
    let path = folder.write(
        "model.py",
        b"\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        bad = torch.isnan(x)
        if bad.any():
            x = x.masked_fill(bad, 0.0)
        return x
",
    );
    folder.run(&["check", "--fix", "model.py"]);
    let after = std::fs::read_to_string(path).expect("UTF-8");
    assert!(after.contains("        bad = torch.isnan(x)\n        x = x.masked_fill(bad, 0.0)\n"));
}
