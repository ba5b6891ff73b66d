//! Figures of a run.

use super::flow::Flow;
use super::record::Record;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Figures of one flow or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Calls begun.
    pub calls: u64,
    /// Calls admitted.
    pub admitted: u64,
    /// Calls still waiting at the end.
    pub waiting: u64,
    /// Requests sent.
    pub tries: u64,
    /// 429s of the gate.
    pub gate_denied: u64,
    /// 429s of the provider.
    pub provider_429: u64,
    /// Other failures.
    pub errors: u64,
    /// LLM tokens of the calls admitted after the warm-up.
    pub llm_tokens: u64,
    /// The same in a minute.
    pub llm_tokens_per_minute: f64,
    /// Calls admitted after the warm-up, in a minute.
    pub requests_per_minute: f64,
    /// Kaplan-Meier median of the wait from first try to admission; `None`: not reached in the run.
    pub wait_p50_s: Option<f64>,
    /// 99th percentile of the same.
    pub wait_p99_s: Option<f64>,
    /// Longest wait seen, ended or not: what an unreached quantile is at least.
    pub wait_floor_s: f64,
    /// Tries per admitted call.
    pub tries_per_admitted: Option<f64>,
    /// First returns after a denial that was told after the warm-up, and how many of them were admitted.
    pub first_returns: u64,
    /// See `first_returns`.
    pub first_returns_kept: u64,
    /// Dominant share of the limits divided by weight; 0 without limits.
    pub share_by_weight: f64,
}

/// The whole summary.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Length of the run.
    pub seconds: f64,
    /// All flows together.
    pub total: Figures,
    /// By `tenant/class`.
    pub flows: BTreeMap<String, Figures>,
    /// Jain index of the shares by weight.
    pub jain: f64,
    /// Use of the request limit after the warm-up.
    pub use_requests: Option<f64>,
    /// Use of the LLM token limit after the warm-up.
    pub use_llm_tokens: Option<f64>,
}

/// What the run is measured against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Against {
    /// Requests a minute.
    pub rpm: Option<u64>,
    /// LLM tokens a minute.
    pub tpm: Option<u64>,
    /// Not counted at the start.
    pub warm_up: Duration,
    /// Length of the run.
    pub length: Duration,
}

/// Sums up a run.
#[must_use]
pub fn summarize(flows: &[Flow], records: &[Record], against: Against) -> Summary {
    let mut by_name: BTreeMap<String, Figures> = BTreeMap::new();
    let mut shares = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        let own: Vec<&Record> = records.iter().filter(|record| record.flow == index).collect();
        let mut figures = figures(&own, against);
        let share = |rate: f64, limit: Option<u64>| limit.map_or(0.0, |limit| rate / limit as f64);
        let dominant = share(figures.requests_per_minute, against.rpm)
            .max(share(figures.llm_tokens_per_minute, against.tpm));
        figures.share_by_weight = dominant / flow.weight;
        shares.push(figures.share_by_weight);
        by_name.insert(flow.name(), figures);
    }
    let total = figures(&records.iter().collect::<Vec<_>>(), against);
    Summary {
        seconds: against.length.as_secs_f64(),
        jain: jain(&shares),
        use_requests: against.rpm.map(|limit| total.requests_per_minute / limit as f64),
        use_llm_tokens: against.tpm.map(|limit| total.llm_tokens_per_minute / limit as f64),
        total,
        flows: by_name,
    }
}

fn figures(records: &[&Record], against: Against) -> Figures {
    let mut out = Figures::default();
    let mut waits = Vec::new();
    let (from, to) = (against.warm_up, against.length);
    for record in records {
        let admitted = record.admitted.filter(|at| *at <= to);
        out.calls += 1;
        out.tries += record.tries;
        out.errors += record.errors;
        out.gate_denied += record.gate_denials.len() as u64;
        out.provider_429 += record.provider_429s.len() as u64;
        out.admitted += u64::from(admitted.is_some());
        out.waiting += u64::from(admitted.is_none() && record.ended.is_none());
        let counts = record.gate_denials.first().is_some_and(|denied| *denied >= from);
        if let Some(kept) = record.first_return_admitted.filter(|_| counts) {
            out.first_returns += 1;
            out.first_returns_kept += u64::from(kept);
        }
        let end = admitted.or(record.ended).unwrap_or(to).min(to);
        if end < from {
            continue;
        }
        waits.push((end.saturating_sub(record.begun).as_secs_f64(), admitted.is_some()));
        if admitted.is_some() {
            out.llm_tokens += record.llm_tokens;
            out.requests_per_minute += 1.0;
        }
    }
    let minutes = (to.saturating_sub(from).as_secs_f64() / 60.0).max(1e-9);
    out.llm_tokens_per_minute = out.llm_tokens as f64 / minutes;
    out.requests_per_minute /= minutes;
    out.tries_per_admitted = (out.admitted > 0).then(|| out.tries as f64 / out.admitted as f64);
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    out.wait_floor_s = waits.last().map_or(0.0, |(wait, _)| *wait);
    out.wait_p50_s = quantile(&waits, 0.5);
    out.wait_p99_s = quantile(&waits, 0.99);
    out
}

/// Kaplan-Meier quantile over sorted `(time, happened)`; those that had not happened yet are censored.
#[must_use]
pub fn quantile(sorted: &[(f64, bool)], share: f64) -> Option<f64> {
    let mut waiting = 1.0;
    for (index, (time, happened)) in sorted.iter().enumerate() {
        if !happened {
            continue;
        }
        let at_risk = (sorted.len() - index) as f64;
        waiting *= 1.0 - 1.0 / at_risk;
        if waiting <= 1.0 - share + 1e-12 {
            return Some(*time);
        }
    }
    None
}

/// Jain's index: 1 = all equal.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_count_those_still_waiting() {
        let all: Vec<(f64, bool)> = (1..=100).map(|n| (f64::from(n), true)).collect();
        assert_eq!((quantile(&all, 0.5), quantile(&all, 0.99)), (Some(50.0), Some(99.0)));
        let half: Vec<(f64, bool)> = (1..=100).map(|n| (f64::from(n), n <= 40)).collect();
        assert_eq!(quantile(&half, 0.5), None);
    }

    #[test]
    fn jain_of_equal_shares_is_one() {
        assert!((jain(&[0.25, 0.25]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0]) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_summary_counts_waits_denials_and_shares() {
        let at = Duration::from_secs;
        let flows = [Flow::default()];
        let admitted =
            Record { begun: at(1), admitted: Some(at(4)), llm_tokens: 50, tries: 2, ..Record::default() };
        let waiting = Record { begun: at(50), gate_denials: vec![at(50)], tries: 1, ..Record::default() };
        let against = Against { rpm: Some(10), tpm: Some(100), warm_up: at(0), length: at(60) };
        let summary = summarize(&flows, &[admitted, waiting], against);
        assert_eq!((summary.total.admitted, summary.total.waiting, summary.total.gate_denied), (1, 1, 1));
        assert_eq!((summary.use_requests, summary.use_llm_tokens), (Some(0.1), Some(0.5)));
        assert_eq!(summary.total.wait_p50_s, Some(3.0));
    }
}
