//! Each rule on what it is for, and on what it must leave alone.

use crate::finding::{Applicability, Finding};
use crate::python::{Project, check, edits};
use crate::registry::RULES;
use crate::rule::Rule;

fn findings(text: &str) -> Vec<Finding> {
    let rules: Vec<&dyn Rule> = RULES
        .iter()
        .copied()
        .filter(|rule| ("TS320".."TS360").contains(&rule.code()))
        .collect();
    let files = vec![("model.py".to_owned(), text.as_bytes().to_vec())];
    check(&Project::default(), files, &rules).findings
}

fn codes(text: &str) -> Vec<String> {
    let mut codes: Vec<String> = findings(text)
        .into_iter()
        .map(|finding| finding.code)
        .collect();
    codes.sort();
    codes
}

fn fixed(text: &str, at_most: Applicability) -> String {
    let found = findings(text);
    let by_file = edits::fixes_by_file(&found, at_most);
    let Some(fixes) = by_file.get("model.py") else {
        return text.to_owned();
    };
    edits::apply("model.py", text, fixes)
        .expect("the result parses")
        .text
}

/// The body of `forward` of a module.
fn forward(body: &str) -> String {
    let lines: Vec<String> = body
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    format!(
        "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, y, mask):\n{}",
        lines.concat()
    )
}

#[test]
fn masks_in_forward() {
    let text = forward("x[x < 0] = 0\nreturn x");
    assert_eq!(codes(&text), ["TS320"]);
    assert!(fixed(&text, Applicability::Safe).contains("x.masked_fill_(x < 0, 0)\n"));
    let text = forward("x[mask] = 0.5\nreturn x");
    assert_eq!(fixed(&text, Applicability::Safe), text);
    assert!(fixed(&text, Applicability::Unsafe).contains("x.masked_fill_(mask, 0.5)\n"));
    assert_eq!(
        codes(&forward("x[~mask] = y[~mask]\nreturn x")),
        ["TS320", "TS321"]
    );
    assert_eq!(codes(&forward("return x[mask.bool()]")), ["TS321"]);
    assert_eq!(
        codes(&forward("rows = torch.nonzero(x)\nreturn rows")),
        ["TS321"]
    );
}

#[test]
fn masks_elsewhere_are_nobody_s_business() {
    for text in [
        // NumPy, on the host.
        forward("n = np.zeros(3)\nn[n > 1] = 0\nreturn x"),
        // The three argument form keeps the shape.
        forward("return torch.where(x > 0, x, y)"),
        // Prepared once.
        "import torch\ndef load(x):\n    x[x < 0] = 0\n    return x[x > 1]\n".to_owned(),
        // Neither PyTorch nor JAX.
        "import numpy as np\nclass Net(nn.Module):\n    def forward(self, x):\n        x[x < 0] = 0\n".to_owned(),
        // An index, not a mask.
        forward("i = y[0]\nreturn x[i]"),
    ] {
        assert!(codes(&text).is_empty(), "{text}");
    }
}

#[test]
fn scatters_of_long_integers_weigh_most() {
    let text = "import torch\nimport torch_xla.core.xla_model as xm\nsrc = torch.randint(0, 9, (100,))\nfor i in range(10):\n    r = torch.scatter_reduce(a, 0, index, src, 'amin')\n    xm.mark_step()\n";
    let found = findings(text);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, crate::finding::Severity::High);
    let text = text.replace("randint(0, 9, (100,))", "rand(100)");
    assert_eq!(findings(&text)[0].severity, crate::finding::Severity::Low);
    // Once, not in a step.
    assert!(codes("import torch\nr = torch.scatter_add(a, 0, index, src)\n").is_empty());
}

#[test]
fn vmap_of_updates_and_of_dropout() {
    let text = "from jax import jit, lax, vmap\nf = lax.dynamic_update_slice\ng = jit(vmap(f))\n";
    assert_eq!(codes(text), ["TS323"]);
    assert!(codes("from jax import jit, lax\nf = jit(lax.dynamic_update_slice)\n").is_empty());
    let text = "import jax\njax.config.update('jax_default_prng_impl', 'unsafe_rbg')\nloss = jax.vmap(lambda ex, key: model(ex, key=key))(batch, keys)\n";
    assert_eq!(codes(text), ["TS324"]);
    assert!(codes(&text.replace("unsafe_rbg", "threefry2x32")).is_empty());
}

#[test]
fn samplers() {
    let text = "import torch\ndef top_p(logits, p):\n    s, i = torch.sort(logits)\n    c = s.softmax(-1).cumsum(-1)\n    m = (c < 1 - p).scatter(1, i, c < 1 - p)\n    return logits.masked_fill(m, -1e9)\n";
    assert_eq!(codes(text), ["TS325"]);
    assert!(codes(&text.replace(".scatter(1, i, c < 1 - p)", "")).is_empty());
}

#[test]
fn pools_resizes_precision_and_width() {
    assert_eq!(
        codes(&forward("return F.max_pool2d(x, 2, return_indices=True)")),
        ["TS327"]
    );
    assert!(codes(&forward("return F.max_pool2d(x, 2)")).is_empty());
    let text = forward("return F.interpolate(x, scale_factor=2, mode=\"bilinear\")");
    assert!(codes(&text).is_empty(), "TorchTPU has a kernel");
    let text = format!("import torch_xla\n{text}");
    assert_eq!(codes(&text), ["TS328"]);
    let after = fixed(&text, Applicability::Safe);
    assert!(
        after.contains("size=(x.shape[-2] * 2, x.shape[-1] * 2), mode"),
        "{after}"
    );
    let text = forward("return x.double().sum(dtype=torch.float64)");
    assert_eq!(codes(&text), ["TS329"]);
    let after = fixed(&text, Applicability::Unsafe);
    assert!(
        after.contains("x.float().sum(dtype=torch.float32)"),
        "{after}"
    );
    let text = "import torch\ntorch.set_float32_matmul_precision('highest')\n";
    assert_eq!(codes(text), ["TS332"]);
    assert!(codes(&text.replace("highest", "high")).is_empty());
}

#[test]
fn long_masks_of_an_excerpt() {
    let text = "ids, mask = batch\nids = ids.to(device, dtype=torch.long)\nmask = mask.to(device, dtype=torch.long)\n";
    assert_eq!(codes(text), ["TS330"]);
    let after = fixed(text, Applicability::Unsafe);
    assert!(
        after.contains("ids.to(device, dtype=torch.long)"),
        "{after}"
    );
    assert!(
        after.contains("mask.to(device, dtype=torch.int32)"),
        "{after}"
    );
}

#[test]
fn cells_and_experts() {
    let text = "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.cell = nn.LSTMCell(8, 8)\n        self.w = nn.Parameter(torch.empty(4, 16, 8))\n        self.one = nn.Parameter(torch.empty(16, 8))\n    def forward(self, x, h, c):\n        for t in range(x.size(1)):\n            h, c = self.cell(x[:, t], (h, c))\n        y = torch.matmul(h, self.one.transpose(0, 1))\n        return torch.bmm(y, self.w.transpose(1, 2))\n";
    assert_eq!(codes(text), ["TS331", "TS333"]);
    let text = text
        .replace("for t in range(x.size(1)):", "if True:")
        .replace("torch.empty(4, 16, 8)", "torch.empty(16, 8)");
    assert!(codes(&text).is_empty());
}

#[test]
fn updates_of_arrays_by_masks() {
    let text =
        "import jax\nimport jax.numpy as jnp\n@jax.jit\ndef f(x):\n    return x.at[x < 0].set(0)\n";
    assert_eq!(codes(text), ["TS334"]);
    assert!(fixed(text, Applicability::Safe).contains("return jnp.where(x < 0, 0, x)\n"));
    assert!(codes(&text.replace("x < 0", "3")).is_empty());
}
