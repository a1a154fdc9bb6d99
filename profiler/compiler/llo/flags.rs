//! How libtpu is made to write its listings, and which of its files are read.

/// What libtpu prints before it ends with exit code 1 when it does not know a flag of
/// `LIBTPU_INIT_ARGS`: a build without these listings. Scores then fall back to the compiler's
/// estimates, which price no kernel.
pub const UNKNOWN_FLAG_MESSAGE: &str = "Unknown command line flag";

/// Flags for `LIBTPU_INIT_ARGS`, joined by spaces, so `dump_dir` must not contain any. They are
/// read once, when libtpu is loaded: a process for each dump. The directory must exist.
///
/// The last flag keeps the dump small: without it libtpu writes some 70 passes per kernel, and
/// takes many times as long.
#[must_use]
pub fn bundle_flags(dump_dir: &str) -> Vec<String> {
    vec![
        format!("--xla_jf_dump_to={dump_dir}"),
        "--xla_jf_dump_llo_text=true".to_owned(),
        "--xla_jf_dump_llo_pass_label_regex=.*(final_bundles|final_hlo-static-per-bundle).*"
            .to_owned(),
    ]
}

/// Whether [`read`](super::read) wants the contents of a file of the dump, by its name.
#[must_use]
pub fn is_bundle_file(name: &str) -> bool {
    parse(name).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bundles,
    Utilization,
}

/// Instruction, module and kind of `1796062-attention.1-02-final_bundles.txt`.
pub(super) fn parse(name: &str) -> Option<(&str, &str, Kind)> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let (module, rest) = name.split_once('-')?;
    let bundles = rest
        .strip_suffix("-final_bundles.txt")
        .map(|rest| (rest, Kind::Bundles));
    let table = || {
        rest.strip_suffix("-final_hlo-static-per-bundle-utilization.txt")
            .map(|rest| (rest, Kind::Utilization))
    };
    let (rest, kind) = bundles.or_else(table)?;
    let (instruction, pass) = rest.rsplit_once('-')?;
    let numbers = [module, pass];
    let numbered = numbers
        .iter()
        .all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    // `TLP` is the program that calls the instructions; `<late-…>` runs before and after it.
    let is_instruction = instruction != "TLP" && !instruction.starts_with('<');
    (numbered && is_instruction).then_some((instruction, module, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listings_of_instructions_are_read() {
        let name = "17960-fusion.2-remat-02-final_bundles.txt";
        assert_eq!(
            parse(name),
            Some(("fusion.2-remat", "17960", Kind::Bundles))
        );
        let name = "dump/17960-mm-01-final_hlo-static-per-bundle-utilization.txt";
        assert_eq!(parse(name), Some(("mm", "17960", Kind::Utilization)));
        for other in [
            "17960-TLP-03-final_bundles.txt",
            "17960-<late-finalization>-03-final_bundles.txt",
            "17960-mm-02-schedule-analysis_final_bundles.txt",
            "17960-TLP-hlo.txt",
            "-final_bundles.txt",
            "",
        ] {
            assert!(!is_bundle_file(other), "{other}");
        }
    }
}
