//! The chips: one data file a generation, parsed once.

use std::sync::LazyLock;

use profiler::chip::{ChipFacts, Generation};

/// The data files, in the order of [`Generation::ALL`].
const FILES: [(&str, &str); Generation::ALL.len()] = [
    ("chips/v2.toml", include_str!("data/chips/v2.toml")),
    ("chips/v3.toml", include_str!("data/chips/v3.toml")),
    ("chips/v4.toml", include_str!("data/chips/v4.toml")),
    ("chips/v5e.toml", include_str!("data/chips/v5e.toml")),
    ("chips/v5p.toml", include_str!("data/chips/v5p.toml")),
    ("chips/v6e.toml", include_str!("data/chips/v6e.toml")),
    ("chips/tpu7x.toml", include_str!("data/chips/tpu7x.toml")),
];

/// What is known of every generation, in the order of [`Generation::ALL`].
#[must_use]
pub fn chips() -> &'static [ChipFacts] {
    static CHIPS: LazyLock<Vec<ChipFacts>> = LazyLock::new(|| {
        FILES
            .iter()
            .map(|(file, text)| crate::parse(file, text).expect("the tests parse each file"))
            .collect()
    });
    &CHIPS
}

/// What is known of one generation.
///
/// ```
/// use profiler::chip::Generation;
///
/// let v6e = knowledge::chips::chip(Generation::V6e);
/// assert_eq!(v6e.peak_tflops_per_device("bf16"), Some(918.0));
/// ```
#[must_use]
pub fn chip(generation: Generation) -> &'static ChipFacts {
    chips()
        .iter()
        .find(|chip| chip.generation == generation)
        .expect("the tests find a file for each generation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_file_for_each_generation_in_their_order() {
        let found: Vec<Generation> = chips().iter().map(|chip| chip.generation).collect();
        assert_eq!(found, Generation::ALL);
    }

    #[test]
    fn every_figure_names_its_source() {
        for (file, text) in FILES {
            let table: toml::Table = text.parse().expect("parses as a struct, so as a table too");
            let mut figures = 0;
            let mut left: Vec<(&String, &toml::Value)> = table.iter().collect();
            while let Some((name, value)) = left.pop() {
                let Some(inner) = value.as_table() else {
                    continue;
                };
                if inner.contains_key("value") {
                    figures += 1;
                    let source = inner
                        .get("source")
                        .and_then(toml::Value::as_str)
                        .unwrap_or("");
                    assert!(source.len() >= 20, "{file}: {name} cites only '{source}'");
                } else {
                    left.extend(inner);
                }
            }
            assert!(figures >= 15, "{file} has only {figures} figures");
        }
    }

    #[test]
    fn peaks_follow_from_units_and_clock() {
        for chip in chips() {
            let bf16 = chip
                .peak_tflops_per_core("bf16")
                .expect("every chip multiplies bf16");
            let mxus = f64::from(chip.mxus_per_core.as_ref().expect("published").value);
            let clock_mhz = chip.clock_mhz.as_ref().expect("known").value;
            let size = f64::from(chip.mxu_size.value);
            let from_units = mxus * size * size * 2.0 * clock_mhz * 1e6 / 1e12;
            // From v6e on the published peaks need two products a cycle (see the data files), and
            // TPU7x's are quoted at 2200 MHz where the compiler counts with 1900.
            let expected = match chip.generation {
                Generation::V6e => 2.0,
                Generation::Tpu7x => 2.0 * 2200.0 / 1900.0,
                _ => 1.0,
            };
            let ratio = bf16 / from_units;
            assert!(
                (ratio / expected - 1.0).abs() < 0.005,
                "{:?}: {ratio}",
                chip.generation
            );
        }
    }

    #[test]
    fn figures_of_a_chip_fit_each_other() {
        for chip in chips() {
            let who = chip.generation;
            let bf16 = chip
                .peak_tflops_per_chip("bf16")
                .expect("every chip multiplies bf16");
            for (dtype, peak) in &chip.peak_tflops_per_chip {
                let ratio = peak.value / bf16;
                let whole = [1.0, 2.0, 4.0]
                    .iter()
                    .any(|n| (ratio / n - 1.0).abs() < 0.01);
                assert!(whole, "{who:?} {dtype}: {ratio} of bf16");
            }
            let intensity = bf16 * 1e3 / chip.hbm_gb_per_s_per_chip.value;
            assert!(
                (60.0..600.0).contains(&intensity),
                "{who:?}: ridge at {intensity} FLOP/B"
            );
            let usable = chip.hbm_usable_bytes_per_device() as f64;
            let share = usable / chip.hbm_bytes_per_device() as f64;
            assert!(
                (0.93..1.01).contains(&share),
                "{who:?}: {share} of the HBM is usable"
            );
            let links = chip.ici_links_per_chip.as_ref().expect("known").value;
            let dimensions = chip.ici_dimensions.as_ref().expect("known").value;
            assert_eq!(links, 2 * dimensions, "{who:?}: two neighbours an axis");
            let ici = chip.ici_gb_per_s_per_chip.as_ref().expect("known").value;
            assert!(
                ici < chip.hbm_gb_per_s_per_chip.value,
                "{who:?}: ICI is slower than HBM"
            );
            if let Some(pcie) = &chip.pcie_gb_per_s_per_chip {
                assert!(
                    pcie.value * 10.0 < ici,
                    "{who:?}: PCIe is far slower than ICI"
                );
            }
            if let Some(dcn) = &chip.dcn_gb_per_s_per_chip {
                assert!(
                    dcn.value * 10.0 < ici,
                    "{who:?}: DCN is far slower than ICI"
                );
            }
            assert_eq!((chip.lanes.value, chip.sublanes.value), (128, 8), "{who:?}");
        }
    }

    #[test]
    fn well_known_figures_are_as_published() {
        let v6e = chip(Generation::V6e);
        assert_eq!(v6e.peak_tflops_per_device("int8"), Some(1836.0));
        assert_eq!(v6e.hbm_bytes_per_device(), 32 << 30);
        let ridge = 918.0e3 / 1638.0;
        assert!((ridge - 560.4_f64).abs() < 0.1);

        let v5p = chip(Generation::V5p);
        assert_eq!(v5p.peak_tflops_per_core("bf16"), Some(229.5));
        assert_eq!(v5p.hbm_gb_per_s_per_core(), 1382.5);

        let tpu7x = chip(Generation::Tpu7x);
        assert_eq!(tpu7x.peak_tflops_per_device("bf16"), Some(1153.5));
        assert_eq!(tpu7x.peak_tflops_per_device("f8e4m3fn"), Some(2307.0));
        assert_eq!(tpu7x.peak_tflops_per_device("s8"), Some(1153.5));
        assert_eq!(tpu7x.hbm_gb_per_s_per_device(), 3690.0);
    }

    #[test]
    fn an_unknown_figure_is_an_error_that_names_the_file() {
        let text = FILES[0].1.replace("product_name", "product_nmae");
        let error = crate::parse::<ChipFacts>("chips/v2.toml", &text).expect_err("misspelt");
        assert!(error.to_string().contains("chips/v2.toml"), "{error}");
        assert!(error.to_string().contains("product_nmae"), "{error}");
    }
}
