//! What all fuzz targets do with what they have read: the whole analysis, to the last byte of the
//! report.

use advisors::Report;
use advisors::registry::RULES;
use profiler::chip::Generation;
use profiler::evidence::Evidence;
use profiler::note::Notes;
use profiler::program::Program;
use profiler::session::{Session, SessionProgram};
use profiler::session_builder::SessionBuilder;

/// Analyses a session. A program without a trace is priced for a chip first, as the command does.
pub fn analyse(mut session: Session) {
    let chips = knowledge::chips::chips();
    if session.devices.is_empty() && !session.programs.is_empty() {
        profiler::roofline_session::price(&mut session, knowledge::chips::chip(Generation::V6e));
    }
    let evidence = Evidence::gather(&session, None, chips);
    let report = Report::new(&evidence, RULES);
    serde_json::to_vec(&report).expect("a report is JSON");
}

/// Analyses a program without a trace.
pub fn analyse_program((program, notes): (Program, Notes)) {
    let mut builder = SessionBuilder::default();
    builder.notes().merge(notes);
    builder.add_program(SessionProgram {
        module: None,
        program,
    });
    analyse(builder.finish());
}
