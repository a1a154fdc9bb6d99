//! The HTML report: what it shows, and what it must never do.

mod markup;

use advisors::Report;
use advisors::finding::{Basis, Confidence, Exhibit, Finding, OpMention, Saving, Severity};
use advisors::registry::RULES;
use profiler::evidence::Evidence;
use profiler::session::Session;

use crate::rules::session;
use crate::support::scenarios;
use markup::{Element, elements};

/// Names that try to be markup, to close what they stand in, to hide or to flood.
fn hostile() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".to_owned(),
        "\"><img src=\"https://example.org/x\" onerror=\"alert(1)\">".to_owned(),
        "' onmouseover='alert(1)".to_owned(),
        "]]> --> </style></svg></title><b>".to_owned(),
        "\u{202e}gnp.exe\u{2066}\u{200b}".to_owned(),
        "\u{1b}[31mred\u{1b}[0m\u{0}\u{7}\r\u{9b}".to_owned(),
        "{{ 7 * 7 }}{% raw %}&lt;&#x3c;".to_owned(),
        "javascript:alert(1)".to_owned(),
        "long".repeat(50_000),
        "\u{1f468}\u{200d}\u{1f469}é\u{301}".repeat(300),
    ]
}

fn html(session: &Session) -> String {
    let evidence = Evidence::gather(session, None, knowledge::chips::chips());
    let report = Report::new(&evidence, RULES);
    ::web::report_html(&report, Some(&evidence))
}

fn texts(elements: &[Element], name: &str) -> Vec<String> {
    let named = elements.iter().filter(|element| element.name == name);
    named
        .map(|element| {
            element
                .text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// What holds for every page: see each assertion.
fn check_page(html: &str) -> Vec<Element> {
    let elements = elements(html);
    const TAGS: &[&str] = &[
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "main",
        "footer",
        "nav",
        "section",
        "article",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "p",
        "div",
        "span",
        "strong",
        "em",
        "code",
        "pre",
        "br",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "figure",
        "figcaption",
        "svg",
        "rect",
        "circle",
        "line",
        "polyline",
        "polygon",
        "text",
    ];
    for element in &elements {
        let name = element.name.as_str();
        assert!(TAGS.contains(&name), "<{name}> is not ours");
        for (attribute, value) in &element.attributes {
            assert!(!attribute.starts_with("on"), "{attribute} in <{name}>");
            assert!(
                !matches!(
                    attribute.as_str(),
                    "src" | "srcset" | "style" | "action" | "data"
                ),
                "{attribute} in <{name}>"
            );
            if attribute == "href" {
                assert_eq!(name, "a");
                let leaves = value.starts_with("https://") || value.starts_with("http://");
                assert!(leaves || value.starts_with('#'), "a link to {value}");
                let rel = element.attribute("rel").unwrap_or_default();
                assert!(!leaves || rel.contains("noreferrer"), "a link to {value}");
            }
        }
        if name == "th" {
            assert!(matches!(element.attribute("scope"), Some("row" | "col")));
        }
        if name == "svg" {
            assert_eq!(element.attribute("width"), Some("1180"));
        }
    }
    let policies: Vec<&str> = elements
        .iter()
        .filter(|e| e.attribute("http-equiv") == Some("Content-Security-Policy"))
        .filter_map(|e| e.attribute("content"))
        .collect();
    assert_eq!(policies, [::web::CONTENT_SECURITY_POLICY]);
    let pictures = elements
        .iter()
        .filter(|e| e.attribute("role") == Some("img"));
    for picture in pictures {
        let alt = picture.attribute("aria-label").unwrap_or_default();
        assert!(alt.len() > 40, "a picture without words: {alt:?}");
    }
    let ids: Vec<&str> = elements.iter().filter_map(|e| e.attribute("id")).collect();
    for element in &elements {
        if let Some(id) = element
            .attribute("href")
            .and_then(|href| href.strip_prefix('#'))
        {
            assert!(ids.contains(&id), "a link to #{id}, which is nowhere");
        }
    }
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "an id twice");
    let levels = elements.iter().filter_map(|element| {
        let level = element.name.strip_prefix('h')?.parse::<u32>().ok()?;
        (1..=6).contains(&level).then_some(level)
    });
    let mut last = 0;
    for level in levels {
        assert!(level <= last + 1, "h{level} after h{last}");
        last = level;
    }
    let treacherous = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    assert_eq!(html.find(treacherous), None);
    elements
}

#[test]
fn every_scenario_gives_a_page_that_needs_nothing_else() {
    for (name, scenario) in scenarios::ALL {
        let page = html(&session(&[scenario()]));
        check_page(&page);
        assert!(page.len() < 600_000, "{name}: {} bytes", page.len());
    }
}

#[test]
fn sections_and_findings_are_headings() {
    let elements = check_page(&html(&session(&[scenarios::host_offload()])));
    assert_eq!(
        texts(&elements, "h2"),
        [
            "Where the time goes",
            "Findings",
            "One step",
            "Roofline",
            "Operations",
            "Programs",
            "Memory",
            "Notes",
            "XProf’s figures",
        ]
    );
    let findings = texts(&elements, "h3");
    assert!(
        findings[0].starts_with("1 copies to and from host memory are exposed"),
        "{findings:?}"
    );
    let card = texts(&elements, "h5");
    assert_eq!(card.first().map(String::as_str), Some("What it does"));
    assert_eq!(card.last().map(String::as_str), Some("References"));
    assert_eq!(elements.iter().filter(|e| e.name == "svg").count(), 3);
}

#[test]
fn names_from_a_profile_stay_text() {
    let names = hostile();
    let mut session = session(&[scenarios::train_step_fsdp()]);
    for (i, op) in session.ops.iter_mut().enumerate() {
        let name = |shift: usize| names[(i + shift) % names.len()].clone();
        op.name = name(0);
        op.category = name(1);
        op.framework_op = name(2);
        op.source = name(3);
        op.shape = name(4);
    }
    for (i, module) in session.modules.iter_mut().enumerate() {
        module.name = names[i % names.len()].clone();
    }
    for (i, device) in session.devices.iter_mut().enumerate() {
        device.plane = names[i % names.len()].clone();
    }
    for host in &mut session.hosts {
        host.name = names[0].clone();
    }
    session.hosts.push(session.hosts[0].clone());
    for name in &names {
        session.inputs.push(profiler::session::Input {
            path: name.into(),
            format: profiler::session::Format::XSpace,
            stored_bytes: 1,
        });
    }
    let page = html(&session);
    let elements = check_page(&page);
    assert!(page.len() < 600_000, "{} bytes", page.len());
    let body = texts(&elements, "body").concat();
    for shown in [
        "<script>alert(1)</script>",
        "\"><img src=",
        "' onmouseover='alert(1)",
        "]]> --> </style></svg></title><b>",
        "⟨U+202E⟩gnp.exe⟨U+2066⟩⟨U+200B⟩",
        "⟨U+001B⟩[31mred",
        "{{ 7 * 7 }}{% raw %}&lt;&#x3c;",
    ] {
        assert!(body.contains(shown), "{shown} is not shown as it is");
    }
}

#[test]
fn texts_of_findings_stay_text() {
    let names = hostile();
    let session = session(&[scenarios::host_offload()]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let mut report = Report::new(&evidence, RULES);
    report.findings = names.iter().map(|name| finding(name)).collect();
    for note in &mut report.notes {
        note.message.clone_from(&names[0]);
    }
    if let Some(chip) = &mut report.chip {
        chip.reason.clone_from(&names[1]);
    }
    report.steps.basis.clone_from(&names[3]);
    let elements = check_page(&::web::report_html(&report, Some(&evidence)));
    let titles = texts(&elements, "h3");
    assert_eq!(titles.len(), names.len());
    assert_eq!(titles[0], "1 <script>alert(1)</script>");
}

fn finding(text: &str) -> Finding {
    let own = || text.to_owned();
    Finding {
        code: own(),
        rule: own(),
        title: own(),
        severity: Severity::Medium,
        confidence: Confidence {
            probability: 0.4,
            low: 0.3,
            high: 0.5,
            kind: own(),
            supported: 1,
            refuted: 2,
            source: own(),
        },
        saving: Some(Saving {
            expected_ms: 1.0,
            low_ms: 0.5,
            high_ms: f64::NAN,
            upper_bound_ms: f64::INFINITY,
            share_of_step: 0.02,
            basis: Basis::Modelled,
            formula: own(),
        }),
        ops: vec![OpMention {
            id: u32::MAX,
            name: own(),
            module: own(),
            category: own(),
            shape: own(),
            framework_op: own(),
            source: own(),
            self_ms_per_step: 1.0,
            executions_per_step: 1.0,
        }],
        op_count: 1,
        places: Vec::new(),
        lost_s: None,
        evidence: vec![
            Exhibit::text(own(), own(), own()),
            Exhibit::number(own(), 1.0, own(), own()),
        ],
        advice: vec![own()],
        fix: None,
        caveats: vec![own()],
        fingerprint: own(),
    }
}

#[test]
fn the_same_profile_gives_the_same_bytes() {
    let page = || html(&session(&[scenarios::train_step_fsdp()]));
    assert!(page() == page(), "two pages of one profile differ");
}

#[test]
fn a_stored_report_is_shown_without_its_profile() {
    let session = session(&[scenarios::host_offload()]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let report = Report::new(&evidence, RULES);
    let stored = serde_json::to_string(&report).expect("a report is JSON");
    let read: Report = serde_json::from_str(&stored).expect("what was written can be read");
    let elements = check_page(&::web::report_html(&read, None));
    assert_eq!(elements.iter().filter(|e| e.name == "svg").count(), 1);
    let body = texts(&elements, "body").concat();
    assert_eq!(body.matches("made from a stored report").count(), 3);
}

#[test]
fn a_long_run_is_a_small_page() {
    let profile = scenarios::long_run(200);
    let session = session(&[profile]);
    let events: usize = session.devices.iter().map(|device| device.ops.len()).sum();
    let page = html(&session);
    check_page(&page);
    assert!(events > 10_000, "{events} events");
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn the_step_of_every_core_is_the_same_one_although_the_capture_cut_some() {
    let elements = check_page(&html(&session(&[scenarios::sample()])));
    let label = elements
        .iter()
        .find(|element| element.attribute("id") == Some("timeline-p"))
        .and_then(|element| element.attribute("aria-label"))
        .expect("a timeline");
    assert!(label.contains("4 cores"), "{label}");
    let programs = elements
        .iter()
        .filter(|e| e.name == "text" && e.text.trim() == "jit_train_step")
        .count();
    assert_eq!(programs, 4, "one run of the program a core");
}
