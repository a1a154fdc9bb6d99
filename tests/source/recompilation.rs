//! `check`: recompilation. The command finds what compiles in every step, and its fixes hold.

use crate::cli::Folder;

const TRAIN: &str = "\
import torch
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=32, shuffle=True)
dev = xm.xla_device()
for _ in range(10):
    a = torch.randn(8, 8, device=dev)
    b = a @ a  # squared
";

#[test]
fn a_mark_is_added_and_the_partial_batch_is_left_to_the_user() {
    let folder = Folder::new();
    let path = folder.write("train.py", TRAIN.as_bytes());
    let said = folder.run(&["check", "train.py"]).out;
    for code in ["TS102", "TS112"] {
        assert!(said.contains(code), "{code}: {said}");
    }
    folder.run(&["check", "--fix", "train.py"]);
    let after = std::fs::read_to_string(&path).expect("UTF-8");
    assert!(
        after.ends_with("b = a @ a  # squared\n    xm.mark_step()\n"),
        "{after}"
    );
    assert!(after.contains("DataLoader(data, batch_size=32, shuffle=True)"));
    folder.run(&["check", "--unsafe-fixes", "train.py"]);
    let after = std::fs::read_to_string(&path).expect("UTF-8");
    assert!(after.contains("DataLoader(data, batch_size=32, shuffle=True, drop_last=True)"));
}

#[test]
fn a_healthy_training_loop_has_nothing_above_info() {
    let folder = Folder::new();
    folder.write(
        "train.py",
        b"\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True, num_workers=4)
model = torch.compile(Net().to('tpu'))
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
total = torch.zeros((), device='tpu')
for step, batch in enumerate(loader):
    loss = model(batch.to('tpu')).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.detach()
    if step % 100 == 0:
        print(step, total.item() / (step + 1))
",
    );
    let said = folder.run(&["check", "train.py"]).out;
    for code in ["TS1", "TS2"] {
        assert!(!said.contains(code), "{said}");
    }
}
