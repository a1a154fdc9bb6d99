//! The mark of a predicted session in what is written of it.

use serde::{Deserialize, Serialize};

use crate::prediction::{Band, Prediction, Provenance, RunPrediction};
use crate::session::{Origin, Session};
use crate::session_builder::SessionBuilder;

/// What the mark begins with. People see it, too: words first, then the same for programs.
const BEGINS: &str = "predicted by tpu-tune, not measured: ";

#[derive(Serialize, Deserialize)]
struct Mark {
    provenance: Provenance,
    runs: Vec<Run>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// As on the line of modules.
    program: String,
    time: Band,
}

/// The mark of a session; none of a measured one.
#[must_use]
pub fn of(session: &Session) -> Option<String> {
    let prediction = session.prediction.as_ref()?;
    let mark = Mark {
        provenance: prediction.provenance.clone(),
        runs: prediction
            .runs
            .iter()
            .map(|run| Run {
                program: super::module_label(session, run.module),
                time: run.time,
            })
            .collect(),
    };
    let json = serde_json::to_string(&mark).ok()?;
    let time = match prediction.step() {
        _ if prediction.provenance.is_lower_bound => "the least that the chip allows".to_owned(),
        Some(step) => step.words(),
        None => "nothing ran".to_owned(),
    };
    let target = prediction.provenance.target.replace('{', "(");
    Some(format!("{BEGINS}{time}, for {target} {json}"))
}

/// Takes the mark of a file that is read: the session is a predicted one. Says whether the text is
/// a mark.
pub(crate) fn take(text: &str, builder: &mut SessionBuilder) -> bool {
    let Some(rest) = text.strip_prefix(BEGINS) else {
        return false;
    };
    let json = rest.find('{').and_then(|at| rest.get(at..));
    let json = json.unwrap_or_default();
    builder.session.origin = Origin::Predicted;
    let mark: Mark = match serde_json::from_str(json) {
        Ok(mark) => mark,
        Err(error) => {
            builder.notes().warn(
                "bad-prediction",
                format!(
                    "the file is a predicted one, but how it was predicted cannot be read ({error}): write it anew with this version"
                ),
            );
            return true;
        }
    };
    let runs = mark.runs.iter().map(|run| RunPrediction {
        module: builder.module_from_label(&run.program),
        time: run.time,
        memory: None,
    });
    let runs = runs.collect();
    builder.session.prediction = Some(Prediction {
        provenance: mark.provenance,
        ops: Vec::new(),
        runs,
    });
    builder.notes().info(
        "predicted-times",
        "nothing was measured: the file holds a predicted run, and every time has an error band",
    );
    true
}
