//! The state of a pool that operators get one log line about each time it changes.

use crate::gate::Summary;

/// How a pool runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// With its whole limits.
    #[default]
    Whole,
    /// Nothing passes: the provider asked for a pause.
    Paused,
    /// With less than its limits: adapted, or opening gradually after a pause.
    Lowered,
}

impl Mood {
    /// The state that a summary shows.
    pub const fn of(summary: &Summary) -> Self {
        if summary.paused.is_some() {
            Self::Paused
        } else if summary.scale_permille < 1_000 {
            Self::Lowered
        } else {
            Self::Whole
        }
    }

    /// What workers tell each other, so that one of them logs.
    pub const fn code(self) -> u8 {
        match self {
            Self::Whole => b'w',
            Self::Paused => b'p',
            Self::Lowered => b'l',
        }
    }

    /// The log line.
    pub fn line(self, pool: &str, summary: &Summary) -> String {
        match self {
            Self::Whole => format!("backpressure: pool {pool}: whole limits again"),
            Self::Paused => {
                let secs = summary.paused.map_or(0, |span| span.as_secs_ceil());
                format!("backpressure: pool {pool}: paused by the provider, {secs} s to go")
            }
            Self::Lowered => {
                let percent = summary.scale_permille.div_ceil(10);
                format!(
                    "backpressure: pool {pool}: runs at {percent} % of its limits after refusals by the provider"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    #[test]
    fn a_pause_outranks_lowered_limits() {
        let mut summary = Summary { scale_permille: 1_000, ..Summary::default() };
        assert_eq!(Mood::of(&summary), Mood::Whole);
        summary.scale_permille = 95;
        assert_eq!(Mood::of(&summary), Mood::Lowered);
        assert!(Mood::Lowered.line("p", &summary).contains("pool p: runs at 10 %"));
        summary.paused = Some(Span::from_millis(1_200));
        assert_eq!(Mood::of(&summary), Mood::Paused);
        assert!(Mood::Paused.line("p", &summary).ends_with("2 s to go"));
    }
}
