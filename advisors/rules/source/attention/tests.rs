//! Text before and after fixes; `tests/source/attention.rs` runs both with PyTorch.

use crate::finding::{Applicability, Finding, Severity};
use crate::python::{Project, check, edits};
use crate::registry::RULES;
use crate::rule::Rule;

fn rules() -> Vec<&'static dyn Rule> {
    RULES
        .iter()
        .copied()
        .filter(|rule| ("TS301".."TS320").contains(&rule.code()))
        .collect()
}

fn findings(project: &Project, text: &str) -> Vec<Finding> {
    let files = vec![("model.py".to_owned(), text.as_bytes().to_vec())];
    check(project, files, &rules()).findings
}

fn codes(text: &str) -> Vec<String> {
    let mut codes: Vec<String> = findings(&Project::default(), text)
        .into_iter()
        .map(|finding| finding.code)
        .collect();
    codes.sort();
    codes
}

/// All rounds of fixes.
fn fixed(text: &str, at_most: Applicability) -> String {
    let mut text = text.to_owned();
    for _ in 0..8 {
        let found = findings(&Project::default(), &text);
        let by_file = edits::fixes_by_file(&found, at_most);
        let Some(fixes) = by_file.get("model.py") else {
            break;
        };
        let edited = edits::apply("model.py", &text, fixes).expect("the result parses");
        if edited.text == text {
            break;
        }
        text = edited.text;
    }
    text
}

macro_rules! pair {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(
                "../../../../tests/fixtures/python/attention/",
                $name,
                ".py"
            )),
            include_str!(concat!(
                "../../../../tests/fixtures/python/attention/after/",
                $name,
                ".py"
            )),
        )
    };
}

#[test]
fn safe_fixes_write_what_is_expected() {
    for (name, before, after) in [
        pair!("causal"),
        pair!("sliding_window"),
        pair!("document"),
        pair!("score_mods"),
        pair!("expanded"),
        pair!("triangle"),
        pair!("custom"),
    ] {
        assert_eq!(fixed(before, Applicability::Safe), after, "{name}");
        assert_eq!(fixed(after, Applicability::Unsafe), after, "{name}, again");
    }
}

#[test]
fn masks_that_may_hide_a_whole_row_are_unsafe() {
    let (_, before, after) = pair!("padding");
    assert_eq!(fixed(before, Applicability::Safe), before);
    assert_eq!(fixed(before, Applicability::Unsafe), after);
}

const HEAD: &str = "import torch\nfrom functools import partial\nfrom torch.nn.attention.flex_attention import flex_attention, create_block_mask, or_masks\n";

fn flex(body: &str) -> String {
    format!("{HEAD}{body}")
}

#[test]
fn what_is_not_known_is_left_alone_with_the_reason() {
    for (body, reason) in [
        (
            "def f(q, k, v, mask):\n    return flex_attention(q, k, v, block_mask=mask)\n",
            "is a parameter",
        ),
        (
            "def f(q, k, v, mod):\n    return flex_attention(q, k, v, score_mod=mod)\n",
            "is a parameter",
        ),
        (
            "def f(*a, **k):\n    return flex_attention(*a, **k)\n",
            "passed on with stars",
        ),
        (
            "def f(q, k, v):\n    return flex_attention(q, k, v, return_lse=True)\n",
            "log-sum-exp",
        ),
        (
            "def m(b, h, q, kv):\n    return table[b][q] == kv\ndef f(q, k, v):\n    mask = create_block_mask(m, 2, None, 8, 8, device=q.device)\n    return flex_attention(q, k, v, block_mask=mask)\n",
            "looks up in two steps",
        ),
        (
            "def m(b, h, q, kv):\n    return q == kv\ndef f(q, k, v):\n    mask = create_block_mask(m, None, None, 8, 8, device=q.device)\n    print(mask)\n    return flex_attention(q, k, v, block_mask=mask)\n",
            "also uses the block mask",
        ),
    ] {
        let text = flex(body);
        let found = findings(&Project::default(), &text);
        assert_eq!(found.len(), 1, "{body}");
        assert!(found[0].title.contains(reason), "{}", found[0].title);
        assert!(found[0].fix.is_none());
        assert_eq!(fixed(&text, Applicability::Unsafe), text);
    }
}

#[test]
fn partials_factories_and_alternatives_are_followed() {
    let text = flex(
        "def near(b, h, q, kv, width):\n    return abs(q - kv) < width\n\n\ndef prefix(length):\n    def mask(b, h, q, kv):\n        return kv < length\n    return mask\n\n\ndef f(q, k, v, n):\n    both = or_masks(partial(near, width=4), prefix(n))\n    mask = create_block_mask(both, None, None, 8, 8, device=q.device)\n    return flex_attention(q, k, v, block_mask=mask)\n",
    );
    let after = fixed(&text, Applicability::Safe);
    assert!(
        after.contains(
            "mask = partial(near, width=4)(0, 0, q_idx, kv_idx) | prefix(n)(0, 0, q_idx, kv_idx)\n"
        ),
        "{after}"
    );
    assert!(
        after.contains("F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"),
        "{after}"
    );
    // `prefix(n)` is a call that may do more than give a value: what it is part of stays.
    assert!(after.contains("both = or_masks("), "{after}");
}

#[test]
fn numbers_of_queries_and_keys_that_differ_are_unsafe_for_a_causal_mask() {
    let text = flex(
        "def f(q, k, v):\n    mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 8, device=q.device)\n    return flex_attention(q, k, v, block_mask=mask)\n",
    );
    assert_eq!(fixed(&text, Applicability::Safe), text);
    let after = fixed(&text, Applicability::Unsafe);
    assert!(
        after.contains("F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
        "{after}"
    );
    assert!(!after.contains("create_block_mask"), "{after}");
}

#[test]
fn imports_that_others_need_stay() {
    let text = flex(
        "def f(q, k, v):\n    return flex_attention(q, k, v)\n\n\ndef g(m):\n    return create_block_mask(m, None, None, 8, 8, device=\"cpu\")\n",
    );
    let after = fixed(&text, Applicability::Safe);
    let import = "from torch.nn.attention.flex_attention import create_block_mask, or_masks\n";
    assert!(after.contains(import), "{after}");
    assert!(
        after.contains("import torch.nn.functional as F\n"),
        "{after}"
    );
}

#[test]
fn other_versions_are_not_claimed_to_abort() {
    let text = flex("def f(q, k, v, mod):\n    return flex_attention(q, k, v, score_mod=mod)\n");
    let at = |version: Option<&str>| {
        let project = Project {
            torch_tpu: version.map(str::to_owned),
        };
        findings(&project, &text)[0].severity
    };
    assert_eq!(at(None), Severity::High);
    assert_eq!(at(Some("0.2.0")), Severity::High);
    assert_eq!(at(Some("0.9.0")), Severity::Low);
}

#[test]
fn settings_of_transformers_are_changed() {
    let text = "from transformers import AutoModel\nmodel = AutoModel.from_pretrained(\"x\", attn_implementation='flex_attention')\n";
    let after = fixed(text, Applicability::Safe);
    assert_eq!(after, text.replace("flex_attention", "sdpa"));
}

#[test]
fn attention_by_hand_is_found_but_not_on_torch_xla() {
    let body = "class A(torch.nn.Module):\n    def forward(self, q, k, v, mask):\n        w = q @ k.transpose(-2, -1) * 0.1\n        w = w.masked_fill(mask == 0, float(\"-inf\"))\n        w = torch.softmax(w, dim=-1)\n        w = self.dropout(w)\n        return w @ v\n";
    assert_eq!(codes(&format!("import torch\n{body}")), ["TS303"]);
    assert!(codes(&format!("import torch\nimport torch_xla\n{body}")).is_empty());
    // No keys: a softmax that chooses among experts.
    let gate = "import torch\nclass A(torch.nn.Module):\n    def forward(self, x):\n        w = torch.softmax(self.gate(x), dim=-1)\n        return w @ self.table\n";
    assert!(codes(gate).is_empty());
    let sdpa = "import torch\nimport torch_xla\ndef f(q, k, v):\n    return torch.nn.functional.scaled_dot_product_attention(q, k, v)\n";
    assert_eq!(codes(sdpa), ["TS304"]);
    assert!(codes(&sdpa.replace("torch_xla", "torch_tpu")).is_empty());
}

#[test]
fn masks_that_are_not_triangles_and_heads_used_twice_stay() {
    let text = "import torch\nimport torch.nn.functional as F\nclass A(torch.nn.Module):\n    def forward(self, q, k, v, S):\n        mask = torch.tril(torch.ones(S, S))\n        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n";
    // Floats are added to the scores: not a mask.
    assert!(codes(text).is_empty());
    let text = "import torch\nimport torch.nn.functional as F\nclass A(torch.nn.Module):\n    def forward(self, q, k, v):\n        k = k.repeat_interleave(4, dim=1)\n        v = v.repeat_interleave(4, dim=1)\n        y = F.scaled_dot_product_attention(q, k, v)\n        return y, k\n";
    let found = findings(&Project::default(), text);
    assert_eq!(found.len(), 1);
    assert!(found[0].fix.is_none());
}
