//! Lines before and after, rule by rule.

use crate::finding::{Applicability, Finding, Severity};
use crate::python::edits::{apply, fixes_by_file};
use crate::python::{Project, check};
use crate::registry::find;

fn findings(rule: &str, text: &str) -> Vec<Finding> {
    let rule = find(rule).expect("a rule");
    let files = vec![("a.py".to_owned(), text.as_bytes().to_vec())];
    check(&Project::default(), files, &[rule]).findings
}

/// The text after the rule's fixes.
fn fixed(rule: &str, text: &str, at_most: Applicability) -> String {
    let findings = findings(rule, text);
    let fixes = fixes_by_file(&findings, at_most);
    let fixes = fixes.get("a.py").cloned().unwrap_or_default();
    apply("a.py", text, &fixes).expect("it parses").text
}

/// Each line of a pair, with what it needs imported around it.
fn assert_fixes(rule: &str, pairs: &[(&str, &str)]) {
    let imports = "import torch\nimport torch.distributed as dist\nfrom torch import nn\n\
                   from torch.nn.parallel import DistributedDataParallel as DDP\n";
    for (before, after) in pairs {
        let text = format!("{imports}{before}\n");
        let wanted = format!("{imports}{after}\n");
        assert_eq!(fixed(rule, &text, Applicability::Safe), wanted, "{before}");
        assert_eq!(
            fixed(rule, &wanted, Applicability::Safe),
            wanted,
            "again: {after}"
        );
    }
}

#[test]
fn devices() {
    assert_fixes(
        "TS501",
        &[
            ("x = x.cuda()", "x = x.to(\"tpu\")"),
            (
                "x = x.cuda(rank, non_blocking=True)",
                "x = x.to(\"tpu\", non_blocking=True)",
            ),
            ("x = x.to('cuda:0')", "x = x.to('tpu')"),
            (
                "x = torch.zeros(3, device=f\"cuda:{rank}\")",
                "x = torch.zeros(3, device=\"tpu\")",
            ),
            (
                "d = torch.device(\"cuda\", rank)",
                "d = torch.device(\"tpu\")",
            ),
            (
                "d = torch.device(\"cuda:\" + str(rank))",
                "d = torch.device(\"tpu\")",
            ),
            ("device = \"cuda\"", "device = \"tpu\""),
            (
                "s = torch.load(p, map_location='cuda')",
                "s = torch.load(p, map_location='tpu')",
            ),
            // No device, a test, another library's method, and what callers decide.
            ("name = \"cuda\"", "name = \"cuda\""),
            (
                "if x.device.type == \"cuda\":\n    x = x.cuda()",
                "if x.device.type == \"cuda\":\n    x = x.cuda()",
            ),
            ("q.cuda(tensor, meta=1)", "q.cuda(tensor, meta=1)"),
            (
                "def f(device=\"cuda\"): pass",
                "def f(device=\"cuda\"): pass",
            ),
        ],
    );
}

#[test]
fn choices() {
    let choice = "torch.accelerator.current_accelerator().type if torch.accelerator.is_available() \
                  else \"cpu\"";
    assert_fixes(
        "TS502",
        &[
            (
                "d = \"cuda\" if torch.cuda.is_available() else \"cpu\"",
                &format!("d = {choice}"),
            ),
            (
                "d = torch.device(\"cuda:0\" if torch.cuda.is_available() else \"cpu\")",
                &format!("d = torch.device({choice})"),
            ),
            (
                "d = \"cuda\" if use_cuda else \"cpu\"",
                "d = \"cuda\" if use_cuda else \"cpu\"",
            ),
        ],
    );
    let shown = findings(
        "TS502",
        "import torch\nd = \"cuda\" if use_cuda else \"cpu\"\n",
    );
    assert_eq!(shown.len(), 1);
    assert!(shown[0].fix.is_none());
    let mps = "import torch\nd = \"cuda\" if torch.cuda.is_available() else \"cpu\"\ne = \"mps\"\n";
    assert!(findings("TS502", mps).is_empty());
}

#[test]
fn mixed_precision() {
    assert_fixes(
        "TS503",
        &[
            (
                "with torch.cuda.amp.autocast(): pass",
                "with torch.autocast(\"tpu\", dtype=torch.bfloat16): pass",
            ),
            (
                "with torch.cuda.amp.autocast(enabled=amp, dtype=torch.float16): pass",
                "with torch.autocast(\"tpu\", dtype=torch.bfloat16, enabled=amp): pass",
            ),
            (
                "with torch.autocast(device_type=\"cuda\", dtype=torch.half): pass",
                "with torch.autocast(device_type=\"tpu\", dtype=torch.bfloat16): pass",
            ),
            (
                "with torch.autocast(\"cuda\", enabled=False): pass",
                "with torch.autocast(\"cuda\", enabled=False): pass",
            ),
        ],
    );
    assert_fixes(
        "TS504",
        &[
            (
                "s = torch.cuda.amp.GradScaler()",
                "s = torch.cuda.amp.GradScaler(enabled=False)",
            ),
            (
                "s = torch.amp.GradScaler(\"cuda\", enabled=amp)",
                "s = torch.amp.GradScaler(\"cuda\", enabled=False)",
            ),
        ],
    );
}

#[test]
fn calls_of_torch_cuda() {
    assert_fixes(
        "TS505",
        &[
            (
                "torch.cuda.synchronize()",
                "torch.accelerator.synchronize()",
            ),
            (
                "torch.cuda.get_device_name(rank)",
                "torch.tpu.get_device_name()",
            ),
            (
                "if torch.cuda.is_available():\n    torch.cuda.synchronize()",
                "if torch.cuda.is_available():\n    torch.cuda.synchronize()",
            ),
            (
                "n = torch.cuda.device_count()",
                "n = torch.cuda.device_count()",
            ),
            (
                "def f(x):\n    if not x.is_cuda:\n        return x\n    torch.cuda.synchronize()",
                "def f(x):\n    if not x.is_cuda:\n        return x\n    torch.cuda.synchronize()",
            ),
        ],
    );
    let check = "import torch\nassert torch.cuda.is_available()\n";
    assert_eq!(
        fixed("TS505", check, Applicability::Unsafe),
        "import torch\nassert torch.accelerator.is_available()\n"
    );
    let seed = findings("TS505", "import torch\ntorch.cuda.manual_seed_all(0)\n");
    assert_eq!(seed.len(), 1);
    assert_eq!(seed[0].severity, Severity::Info);
}

#[test]
fn process_groups() {
    assert_fixes(
        "TS506",
        &[
            (
                "dist.init_process_group('nccl')",
                "dist.init_process_group('tpu_dist')",
            ),
            (
                "dist.init_process_group(backend=\"cpu:gloo,cuda:nccl\")",
                "dist.init_process_group(backend=\"cpu:gloo,tpu:tpu_dist\")",
            ),
            (
                "backend = \"nccl\" if torch.cuda.is_available() else \"gloo\"",
                "backend = \"nccl\" if torch.cuda.is_available() else \"tpu_dist\" if \
                 torch.accelerator.is_available() else \"gloo\"",
            ),
        ],
    );
    assert_fixes(
        "TS507",
        &[
            (
                "torch.cuda.set_device(rank)",
                "torch.accelerator.set_device_index(0)",
            ),
            (
                "m = DDP(m, device_ids=[rank], output_device=rank)",
                "m = DDP(m)",
            ),
            (
                "m = DDP(m, device_ids=[rank], static_graph=True, output_device=rank)",
                "m = DDP(m, static_graph=True)",
            ),
            ("m = DDP(device_ids=[rank], module=m)", "m = DDP(module=m)"),
        ],
    );
}

#[test]
fn compile_options() {
    assert_fixes(
        "TS508",
        &[
            (
                "f = torch.compile(f, mode=\"max-autotune\")",
                "f = torch.compile(f)",
            ),
            (
                "@torch.compile(mode=\"reduce-overhead\", backend=\"inductor\",)\ndef f(): pass",
                "@torch.compile()\ndef f(): pass",
            ),
            (
                "f = torch.compile(f, mode=\"default\")",
                "f = torch.compile(f, mode=\"default\")",
            ),
        ],
    );
}

#[test]
fn packages_that_can_be_done_without_are_fine() {
    let found = findings("TS509", "import triton\nfrom flash_attn.ops import x\n");
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::High)
    );
    let optional = "try:\n    import triton\nexcept ImportError:\n    triton = None\n\
                    def f():\n    import apex\nif gpu:\n    import xformers\n";
    assert!(findings("TS509", optional).is_empty());
}

#[test]
fn step_marks_go_with_their_line() {
    let text = "import torch\nimport torch_xla.core.xla_model as xm\nfor x in xs:\n    f(x)\n    \
                xm.mark_step()\nfor x in xs:\n    xm.mark_step()\n";
    let wanted = "import torch\nimport torch_xla.core.xla_model as xm\nfor x in xs:\n    f(x)\n\
                  for x in xs:\n    None\n";
    assert_eq!(fixed("TS510", text, Applicability::Unsafe), wanted);
}

#[test]
fn checkpoints_and_settings() {
    let text = "import torch\ns = torch.load(p)\nx.cuda()\n";
    let wanted = "import torch\ns = torch.load(p, map_location=\"cpu\")\nx.cuda()\n";
    assert_eq!(fixed("TS511", text, Applicability::Unsafe), wanted);
    assert!(findings("TS511", "import torch\ns = torch.load(p)\n").is_empty());
    let settings = findings(
        "TS512",
        "import torch\ntorch.backends.cudnn.benchmark = True\n\
         torch.backends.cuda.matmul.allow_tf32 = True\n",
    );
    assert_eq!(settings.len(), 1);
    assert_eq!(settings[0].places.len(), 2);
    assert_eq!(settings[0].severity, Severity::Info);
}

#[test]
fn code_that_is_on_a_tpu_already_gets_nothing_above_info() {
    let text = "import torch\nimport torch.distributed as dist\n\
                dist.init_process_group(\"tpu_dist\")\nmodel = torch.nn.Linear(2, 2).to(\"tpu\")\n\
                with torch.autocast(\"tpu\", dtype=torch.bfloat16):\n    model(x)\n\
                torch.accelerator.synchronize()\nif __name__ == \"__main__\":\n    main()\n";
    for rule in crate::registry::RULES {
        if rule.code().starts_with("TS5") || rule.code().starts_with("TS6") {
            let found = findings(rule.code(), text);
            let above = found
                .iter()
                .filter(|finding| finding.severity != Severity::Info);
            assert_eq!(above.count(), 0, "{}", rule.code());
        }
    }
}
