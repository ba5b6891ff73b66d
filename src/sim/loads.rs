//! The loads whose figures are published and asserted.

use crate::sim::client::Client;
use crate::sim::load::{Arrival, Change, Group, Load, Size, secs};
use crate::sim::provider::Measure;
use crate::units::{Limits, Span};

/// Three classes of weights 4:2:1 with this many closed-loop callers each.
pub fn three_classes(callers: [usize; 3]) -> Vec<Group> {
    let weights = [4, 2, 1];
    (0..3u8)
        .map(|class| Group::closed(class, weights[usize::from(class)], callers[usize::from(class)]))
        .collect()
}

/// LLM tokens bind.
pub fn token_bound() -> Load {
    Load::new("token-bound", three_classes([30, 30, 30]))
}

/// Requests bind.
pub fn request_bound() -> Load {
    Load::new("request-bound", three_classes([30, 30, 30])).with(|load| {
        load.limits = Limits { requests: Some(100), llm_tokens: Some(1_200_000), ..Limits::default() };
    })
}

/// Small calls of one class are bound by requests, huge ones of another by LLM tokens.
pub fn mixed() -> Load {
    let mut load = Load::new("mixed dominant resource", three_classes([30, 30, 30]));
    load.limits.requests = Some(200);
    for (group, amount) in load.groups.iter_mut().zip([100, 600, 2000]) {
        group.size = Size::Fixed(amount);
    }
    load
}

/// 10, 60 and 120 callers: the more callers, the lower the class.
pub fn uneven() -> Load {
    Load::new("uneven demand", three_classes([10, 60, 120]))
}

/// Five callers of the high class come 300 s after the others.
pub fn late_high() -> Load {
    Load::new("late high class", three_classes([5, 30, 30])).with(|load| {
        load.groups[0].start = secs(300.0);
        load.measure_from = secs(310.0);
        load.steady_from = secs(420.0);
    })
}

/// Four callers a class: contended, but waits stay short.
pub fn moderate() -> Load {
    Load::new("moderate", three_classes([4, 4, 4]))
}

/// Less is asked for than there is.
pub fn light() -> Load {
    let open = |group: &mut Group| group.arrival = Arrival::Open { per_second: 0.5 };
    Load::new("light, open loop", three_classes([1, 1, 1])).each(open)
}

/// An open stream of a high class below its share, the others greedy.
pub fn open_high() -> Load {
    Load::new("high class open, below its share", three_classes([1, 30, 30]))
        .with(|load| load.groups[0].arrival = Arrival::Open { per_second: 0.8 })
}

/// Refused calls never return with this probability; whole seconds, at most 59 s told.
pub fn abandoning(part: f64) -> Load {
    let name = match (part * 100.0) as u32 {
        0..=50 => "30 % of refused never return",
        51..=80 => "70 % of refused never return",
        _ => "90 % of refused never return",
    };
    Load::new(name, three_classes([30, 30, 30])).with(whole_seconds).each(|group| group.never_return = part)
}

/// The uneven load with 70 % of the refused never returning.
pub fn uneven_abandoning() -> Load {
    Load { name: "uneven, 70 % never return", ..uneven() }
        .with(whole_seconds)
        .each(|group| group.never_return = 0.7)
}

/// Sixty tenants with one caller each, requests binding; one in twenty of the refused never returns.
pub fn single_callers() -> Load {
    let groups = (0..60).map(|tenant| Group {
        tenant,
        size: Size::Fixed(100),
        never_return: 0.05,
        ..Group::closed(0, 1, 1)
    });
    Load::new("60 tenants of one caller, 5 % never return", groups.collect())
        .with(|load| load.max_told = secs(59.0))
}

/// Thirty tenants with two callers each whose calls all cost the same, requests binding: callers in step with each other.
pub fn in_step() -> Load {
    let groups = (0..30).map(|tenant| Group { tenant, size: Size::Fixed(100), ..Group::closed(0, 1, 2) });
    Load::new("30 tenants of two callers in step", groups.collect()).with(|load| {
        load.limits = Limits { requests: Some(100), llm_tokens: Some(1_200_000), ..Limits::default() };
        load.max_told = secs(59.0);
    })
}

fn whole_seconds(load: &mut Load) {
    load.max_told = secs(59.0);
    load.groups.iter_mut().for_each(|group| group.client = Client::WholeSeconds);
}

/// Clients that read whole seconds, at most 59 s told.
pub fn whole_second_clients() -> Load {
    Load { name: "whole seconds, at most 59 s told", ..token_bound() }.with(whole_seconds)
}

/// The same with a low class that comes back every half second.
pub fn hammering() -> Load {
    Load { name: "low class hammers", ..whole_second_clients() }
        .with(|load| load.groups[2].client = Client::Hammers(secs(0.5)))
}

/// The high class comes back after half of what it was told, the low class up to 1.5 s late.
pub fn early_and_late() -> Load {
    Load { name: "high early, low late", ..token_bound() }.with(|load| {
        load.groups[0].client = Client::Early(0.5);
        load.groups[2].client = Client::Late(secs(1.5));
    })
}

/// A class of weight 1000 against one of weight 1: the low one gets 18 calls an hour.
pub fn extreme_weights() -> Load {
    let groups = vec![Group::closed(0, 1000, 20), Group::closed(1, 1, 5)];
    Load::new("weight 1000 against 1", groups)
        .with(|load| {
            load.max_told = secs(59.0);
            load.until = secs(3720.0);
            load.limits.requests = Some(300);
        })
        .each(|group| group.size = Size::Fixed(150))
}

/// Long calls on a limited number of slots.
pub fn streaming() -> Load {
    Load::new("streams on 20 slots", three_classes([20, 20, 20]))
        .with(|load| {
            load.limits = Limits { concurrency: Some(20), ..Limits::default() };
            load.max_told = secs(59.0);
        })
        .each(|group| group.duration = (secs(2.0), secs(12.0)))
}

/// The same with waits up to 1 s parked, as by default.
pub fn streaming_parked() -> Load {
    Load { name: "streams on 20 slots, 1 s parked", ..streaming() }.each(|group| group.max_wait = secs(1.0))
}

/// The same with 40 % of the refused giving up for good.
pub fn streaming_abandoned() -> Load {
    Load { name: "streams on 20 slots, 40 % never return", ..streaming() }
        .with(whole_seconds)
        .each(|group| (group.never_return, group.max_wait) = (0.4, secs(1.0)))
}

/// Reserved amounts are the true ones times `factor`; they are settled when the call ends. The provider measures like the
/// gate, so nothing at all is there for what was not reserved.
pub fn misestimated(factor: f64) -> Load {
    let name = if factor > 1.0 { "estimates 2 x too high" } else { "estimates 2 x too low" };
    Load { name, ..token_bound() }.with(|load| {
        load.estimate_factor = factor;
        load.max_told = secs(59.0);
    })
}

/// 300 tenants in three classes.
pub fn many_tenants() -> Load {
    let groups = (0..300u32).map(|tenant| {
        let class = (tenant % 3) as u8;
        let weight = [4, 2, 1][usize::from(class)];
        Group { tenant: 1000 + tenant, ..Group::closed(class, weight, 2) }
    });
    Load::new("300 tenants in 3 classes", groups.collect()).with(|load| {
        load.limits = Limits { requests: Some(6_000), llm_tokens: Some(1_800_000), ..Limits::default() };
        load.max_told = secs(59.0);
        load.until = secs(420.0);
    })
}

/// Ten equal tenants of two callers each; one of them has `flood` times as many.
pub fn flooded(flood: usize) -> Load {
    let groups = (0..10u32).map(|tenant| {
        let callers = if tenant == 0 { 2 * flood } else { 2 };
        Group { tenant: 1000 + tenant, ..Group::closed(0, 1, callers) }
    });
    let name = if flood > 1 { "one tenant floods 50 x" } else { "ten equal tenants" };
    Load::new(name, groups.collect()).with(|load| load.max_told = secs(59.0))
}

/// SDK clients with two retries at 2.5 x the cap; waits up to 1 s are parked, as by default.
pub fn sdk() -> Load {
    Load::new("SDKs with two retries, 2.5 x the cap", three_classes([15, 15, 15]))
        .with(|load| load.max_told = secs(59.0))
        .each(|group| {
            group.client = Client::Sdk(2);
            group.max_wait = secs(1.0);
            // A caller begins a call every 7 s or so when nothing refuses it: 45 / 7.2 x 800 tokens is 2.5 x the cap.
            group.arrival = Arrival::Closed { callers: 15, think: (secs(6.0), secs(7.1)) };
        })
}

/// The same with nothing parked: every broken promise costs a caller one of its retries.
pub fn sdk_unparked() -> Load {
    Load { name: "the same SDKs, nothing parked", ..sdk() }.each(|group| group.max_wait = Span::ZERO)
}

/// Waits up to 2 s are parked in the proxy.
pub fn parking() -> Load {
    Load { name: "parking up to 10 s", ..moderate() }.each(|group| group.max_wait = secs(10.0))
}

/// The class weights are swapped in mid-run; counted from there.
pub fn reweighed() -> Load {
    Load { name: "weights swapped in mid-run", ..token_bound() }.with(|load| {
        load.script =
            vec![(secs(300.0), Change::ClassWeight(0, 1)), (secs(300.0), Change::ClassWeight(2, 4))];
        load.measure_from = secs(420.0);
        load.steady_from = secs(420.0);
    })
}

/// The wall clock of the host steps back by 5 s, later forward by 30 s.
pub fn clock_steps() -> Load {
    Load { name: "clock steps back and forth", ..token_bound() }.with(|load| {
        load.script =
            vec![(secs(300.0), Change::ClockStep(-5_000_000)), (secs(500.0), Change::ClockStep(30_000_000))];
        load.provider = Some(Measure::Bucket(secs(60.0)));
    })
}

/// Three requests a minute.
pub fn tiny() -> Load {
    Load::new("3 requests a minute", three_classes([2, 2, 2])).with(|load| {
        load.limits = Limits { requests: Some(3), ..Limits::default() };
        load.max_told = secs(59.0);
        load.until = secs(7200.0);
        load.provider = Some(Measure::Bucket(secs(60.0)));
    })
}

/// Calls of more than half of the limit per minute.
pub fn huge_calls() -> Load {
    Load::new("calls of half the limit", three_classes([3, 3, 3]))
        .with(|load| {
            load.max_told = secs(59.0);
            load.until = secs(7200.0);
        })
        .each(|group| group.size = Size::Uniform(60_000, 90_000))
}

/// 300 callers refused within one second at 60 requests a minute.
pub fn herd() -> Load {
    let group = Group {
        arrival: Arrival::Closed { callers: 300, think: (secs(4000.0), secs(4000.0)) },
        start: Span::ZERO,
        ..Group::closed(0, 1, 300)
    };
    Load::new("herd of 300 at 60 a minute", vec![group]).with(|load| {
        load.limits = Limits { requests: Some(60), ..Limits::default() };
        load.max_told = secs(600.0);
        load.measure_from = Span::ZERO;
        load.steady_from = Span::ZERO;
    })
}

/// 1 500 tenants in three classes with 6 000 callers: more flows and more waiting calls than the ledger holds.
pub fn crowd() -> Load {
    let groups = (0..1_500u32).map(|tenant| {
        let class = (tenant % 3) as u8;
        let weight = [4, 2, 1][usize::from(class)];
        Group { tenant: 1000 + tenant, size: Size::Fixed(800), ..Group::closed(class, weight, 4) }
    });
    Load::new("crowd of 6000 callers, 1500 tenants", groups.collect()).with(|load| {
        load.limits = Limits { requests: Some(6_000), llm_tokens: Some(4_800_000), ..Limits::default() };
        load.max_told = secs(59.0);
        load.until = secs(420.0);
    })
}

/// The loads of the main table.
pub fn published() -> Vec<Load> {
    vec![token_bound(), request_bound(), mixed(), uneven(), late_high()]
}

/// Loads beyond the main table.
pub fn further() -> Vec<Load> {
    vec![
        moderate(),
        light(),
        open_high(),
        whole_second_clients(),
        hammering(),
        early_and_late(),
        abandoning(0.3),
        abandoning(0.9),
        uneven_abandoning(),
        extreme_weights(),
        streaming(),
        streaming_parked(),
        streaming_abandoned(),
        misestimated(2.0),
        misestimated(0.5),
        many_tenants(),
        flooded(1),
        flooded(50),
        sdk(),
        sdk_unparked(),
        parking(),
        reweighed(),
        clock_steps(),
        tiny(),
        huge_calls(),
        herd(),
    ]
}
