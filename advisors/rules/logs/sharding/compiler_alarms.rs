//! What rules on messages of the compiler and its frontends share.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::compiler_messages::{Message, MessageKind};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::Context;
use crate::rules::logs::place;

/// Messages of a kind that are told of.
const MAX_SHOWN: usize = 6;

/// The messages of a kind.
pub(super) fn messages<'a>(
    context: &Context<'a>,
    kind: MessageKind,
) -> (&'a Logs, Vec<&'a Message>) {
    let logs = &context.evidence.session.logs;
    let messages = logs.compiler_messages.messages.iter();
    (
        logs,
        messages.filter(|message| message.kind == kind).collect(),
    )
}

/// A remark on all messages of a kind: places and evidence.
pub(super) fn remark(
    logs: &Logs,
    messages: &[&Message],
    kind: AdviceKind,
    severity: Severity,
    title: String,
) -> Remark {
    let mut remark = Remark::new(kind, severity, title);
    for message in messages.iter().take(MAX_SHOWN) {
        remark.places.push(place(
            logs,
            message.at,
            &message.text,
            message.about.clone(),
        ));
        let times = if message.count > 1 {
            format!(" ({} times)", message.count)
        } else {
            String::new()
        };
        remark.evidence.push(Exhibit::text(
            "message",
            format!("{}{times}", message.about),
            message.text.clone(),
        ));
    }
    remark
}

/// The first word of what a message is about.
pub(super) fn name(message: &Message) -> &str {
    message.about.split([' ', '(']).next().unwrap_or_default()
}
