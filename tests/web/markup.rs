//! A reader of markup that accepts well-formed XML only, which our pages are.

/// An element, in the order in which they open.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    /// All text inside, entities resolved.
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The elements of a document; panics, saying where, when it is not well-formed.
pub(crate) fn elements(document: &str) -> Vec<Element> {
    let mut rest = document
        .strip_prefix("<!doctype html>")
        .expect("a document type");
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    while let Some(at) = rest.find('<') {
        let text = resolve(&rest[..at]);
        for index in &open {
            elements[*index].text.push_str(&text);
        }
        let (tag, after) = rest[at + 1..].split_once('>').expect("a tag that ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let index = open
                .pop()
                .unwrap_or_else(|| panic!("</{name}> closes nothing"));
            assert_eq!(elements[index].name, name, "closed in another order");
            continue;
        }
        let (tag, is_closed) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let name: String = tag.chars().take_while(|c| !c.is_whitespace()).collect();
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(plain && !name.is_empty(), "<{tag}> is no tag");
        let attributes = attributes(&tag[name.len()..]);
        if !is_closed {
            open.push(elements.len());
        }
        elements.push(Element {
            name,
            attributes,
            text: String::new(),
        });
    }
    assert!(open.is_empty(), "{} elements are left open", open.len());
    assert!(rest.trim().is_empty(), "text after the end: {rest}");
    elements
}

fn attributes(mut rest: &str) -> Vec<(String, String)> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return attributes;
        }
        let (name, after) = rest
            .split_once("=\"")
            .unwrap_or_else(|| panic!("an attribute without a value: {rest}"));
        let (value, after) = after.split_once('"').expect("a value that ends");
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == ':');
        assert!(plain, "{name} is no attribute");
        assert!(!value.contains('<'), "markup in {name}: {value}");
        assert!(
            attributes.iter().all(|(known, _)| known != name),
            "{name} twice"
        );
        attributes.push((name.to_owned(), resolve(value)));
        rest = after;
    }
}

/// Text with its entities resolved; panics at an ampersand that begins none.
fn resolve(text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        resolved.push_str(before);
        let (entity, after) = after.split_once(';').expect("an entity that ends");
        resolved.push(match entity {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" | "#34" => '"',
            "apos" | "#x27" | "#39" => '\'',
            "#x2f" => '/',
            other => panic!("unknown entity &{other};"),
        });
        rest = after;
    }
    resolved.push_str(rest);
    resolved
}
