//! A program without a trace, priced by the roofline: what its schedule takes at least.
//!
//! The session is marked [`Origin::Predicted`](crate::session::Origin::Predicted) and its notes say
//! what the times are.

use crate::chip::ChipFacts;
use crate::compiler::predicted_session::{Branch, Settings, predict};
use crate::compiler::roofline::RooflinePrices;
use crate::prediction::Provenance;
use crate::session::Session;

/// Gives a session that holds programs but no events one device that runs each program once.
pub fn price(session: &mut Session, facts: &ChipFacts) {
    let settings = Settings {
        provenance: Provenance {
            compiler: String::new(),
            target: facts.generation.name().to_owned(),
            prices: "roofline".to_owned(),
            is_lower_bound: true,
        },
        branch: Branch::Least,
        hbm_gb_per_s: None,
    };
    predict(session, facts, &RooflinePrices::new(facts), &settings);
    session.notes.info(
        "roofline-times",
        "nothing was measured: every time is the least that the roofline allows for the operation",
    );
}
