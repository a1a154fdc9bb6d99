//! Axes: where round values lie.

/// A logarithmic axis from `low` to `high` (both positive) over pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogScale {
    low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl LogScale {
    /// Widened to whole decades' halves so that points keep off the edges.
    pub(crate) fn new(low: f64, high: f64, from: i32, to: i32) -> Self {
        let low = low.max(1e-12).log10() - 0.15;
        let high = high.max(1e-12).log10() + 0.15;
        Self {
            low,
            high: high.max(low + 1.0),
            from,
            to,
        }
    }

    /// The pixel of a value; values outside lie on the edges.
    pub(crate) fn at(&self, value: f64) -> i32 {
        let share = (value.max(1e-300).log10() - self.low) / (self.high - self.low);
        let share = share.clamp(0.0, 1.0);
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    /// Value of the low end.
    pub(crate) fn low(&self) -> f64 {
        10f64.powf(self.low)
    }

    /// Value of the high end.
    pub(crate) fn high(&self) -> f64 {
        10f64.powf(self.high)
    }

    /// Powers of ten, and where they are few also twice and five times these.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let factors: &[f64] = if self.high - self.low > 4.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let decades = (self.low.floor() as i32)..=(self.high.ceil() as i32);
        decades
            .flat_map(|decade| factors.iter().map(move |f| f * 10f64.powi(decade)))
            .filter(|tick| (self.low..=self.high).contains(&tick.log10()))
            .collect()
    }
}

/// Round steps of a linear axis from 0: the step, so that there are about `wanted` of them.
pub(crate) fn round_step(length: f64, wanted: f64) -> f64 {
    if !length.is_finite() || length <= 0.0 {
        return 1.0;
    }
    let rough = length / wanted;
    let magnitude = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * magnitude >= rough)
        .unwrap_or(10.0);
    factor * magnitude
}

/// A tick's label without needless zeros: `0.01`, `5`, `2000`.
pub(crate) fn tick_label(value: f64) -> String {
    if value >= 1.0 {
        return format!("{value:.0}");
    }
    let decimals = (-value.log10()).ceil().clamp(0.0, 12.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::{LogScale, round_step, tick_label};

    #[test]
    fn decades_lie_at_equal_distances() {
        let scale = LogScale::new(1.0, 1000.0, 0, 330);
        assert_eq!(
            scale.at(10.0) - scale.at(1.0),
            scale.at(100.0) - scale.at(10.0)
        );
        assert_eq!(scale.at(0.0), 0);
        assert_eq!(scale.at(1e9), 330);
        let labels: Vec<String> = scale.ticks().into_iter().map(tick_label).collect();
        assert_eq!(
            labels,
            ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"]
        );
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(round_step(66.9, 8.0), 10.0);
        assert_eq!(round_step(0.012, 8.0), 0.002);
        assert_eq!(tick_label(0.002), "0.002");
    }
}
