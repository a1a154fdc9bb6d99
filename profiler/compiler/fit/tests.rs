//! Tests of the fit, on times that the model itself made from known constants.

use super::*;
use crate::compiler::pricer::OpKind;

const TRUE: Constants = Constants {
    mxu: 1.1,
    matmul_excess: 0.4,
    convolution_excess: 0.8,
    epilogue: 0.7,
    vector: 0.35,
    hbm: 0.85,
    kernel: 1.3,
};
const PRIOR: Constants = Constants {
    mxu: 1.0,
    matmul_excess: 0.65,
    convolution_excess: 0.65,
    epilogue: 0.6,
    vector: 0.28,
    hbm: 0.78,
    kernel: 1.0,
};

/// Programs of two operations in changing proportions, of every kind but kernels.
fn samples() -> Vec<Sample> {
    let work = |kind, parts: [f64; 4]| {
        let [estimate, products, vector, hbm] = parts.map(|part| part * 1e6);
        Work {
            kind,
            estimate_ps: Some(estimate),
            products_ps: products,
            vector_ps: vector,
            hbm_ps: hbm,
            ..Work::default()
        }
    };
    let kinds = [
        work(OpKind::Matmul, [100.0, 100.0, 0.0, 20.0]),
        work(OpKind::Matmul, [150.0, 100.0, 5.0, 20.0]),
        work(OpKind::Matmul, [110.0, 100.0, 60.0, 20.0]),
        work(OpKind::Convolution, [90.0, 30.0, 5.0, 20.0]),
        work(OpKind::Loop, [100.0, 0.0, 5.0, 90.0]),
        work(OpKind::Reduce, [300.0, 0.0, 5.0, 20.0]),
    ];
    let mut samples = Vec::new();
    for (i, one) in kinds.iter().enumerate() {
        for (j, other) in kinds.iter().enumerate() {
            let mut sample = Sample::of_op(&format!("{i}.{j}"), *one, 0, 1.0);
            sample.work.ops.push((*other, 0.5 + j as f64));
            sample.set = "build".to_owned();
            sample.measured_ps = sample.predicted(&TRUE).round() as u64;
            samples.push(sample);
        }
    }
    samples
}

#[test]
fn constants_that_made_the_times_are_found_and_those_unseen_keep_their_prior() {
    let found = fit(&samples(), &PRIOR);
    let pairs = found.constants.to_array().into_iter().zip(TRUE.to_array());
    for (i, (found, made)) in pairs.enumerate().take(Constants::COUNT - 1) {
        assert!(
            (found / made - 1.0).abs() < 0.05,
            "{i}: {found} is not {made}"
        );
    }
    assert_eq!(found.constants.kernel, PRIOR.kernel);
    let accuracy = found.accuracy("build");
    assert_eq!(accuracy.programs, 36);
    assert!(accuracy.median_error < 0.02, "{accuracy:?}");
    assert_eq!(found.accuracy("another build"), Accuracy::default());
}

#[test]
fn a_left_out_sample_does_not_pull_its_own_prediction() {
    let mut wrong = samples();
    let last = wrong.len() - 1;
    let honest = wrong[last].measured_ps;
    wrong[last].measured_ps = 10 * honest;
    let found = fit(&wrong, &PRIOR);
    let predicted = found.left_out[last].predicted_ps as f64;
    assert!((predicted / honest as f64 - 1.0).abs() < 0.03);
    assert!((found.left_out[last].error() + 0.9).abs() < 0.01);
}

#[test]
fn bands_hold_for_nine_in_ten() {
    let mut noisy = samples();
    // Deterministic noise of up to 20 % either way.
    for (i, sample) in noisy.iter_mut().enumerate() {
        let noise = 1.0 + 0.2 * ((i * 7 % 11) as f64 / 5.0 - 1.0);
        sample.measured_ps = (sample.measured_ps as f64 * noise) as u64;
    }
    let found = fit(&noisy, &PRIOR);
    let inside = found.left_out.iter().enumerate().filter(|(i, left_out)| {
        let work = &noisy[*i].work;
        let parts = Parts::of(work, &found.constants);
        let shares = parts
            .kinds
            .iter()
            .map(|(k, t)| (*k, t / parts.total))
            .collect();
        let spread = found.spread.of_shares(&shares) * found.spread.band_factor;
        (left_out.error() + 1.0).ln().abs() <= spread * 1.05
    });
    assert!(inside.count() * 100 >= 88 * noisy.len());
    assert!(found.spread.ratio_floor > 0.0 && found.spread.ratio_factor > 0.0);
}

#[test]
fn nothing_to_fit_to_leaves_the_prior() {
    assert_eq!(fit(&[], &PRIOR).constants, PRIOR);
    let mut ignored = samples();
    ignored.iter_mut().for_each(|sample| sample.weight = 0.0);
    let found = fit(&ignored, &PRIOR);
    assert_eq!(found.constants, PRIOR);
    assert_eq!(found.left_out.len(), ignored.len());
}
