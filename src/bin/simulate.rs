//! `simulate [seed]`: plays the published loads against the gate and the baselines, prints the tables and writes the
//! figures into `docs/figures/`. Ends with status 1 when a demanded figure is missed.
//! `simulate fleet [seed]`: plays fleets of 3 to 1 000 Envoys.
//! `simulate <seed> <part of a name>`: plays the loads of that name against the rule on paper and the gate only.

#[cfg(not(target_arch = "wasm32"))]
fn fleets(seed: u64) -> std::process::ExitCode {
    use envoy_backpressure::sim::fleet::suite;
    let mut failed = 0_u32;
    let mut tell = |title: &str, scenes: Vec<(suite::Scene, Vec<String>)>| {
        println!("\n{title}");
        for (scene, missed) in scenes {
            println!("{}{}", scene.line(), if missed.is_empty() { "" } else { "  MISSED" });
            for what in missed {
                failed = failed.saturating_add(1);
                println!("       {what}");
            }
        }
    };
    for replicas in [3, 10, 100, 1_000] {
        tell(&format!("{replicas} Envoys, saturated"), suite::saturated(replicas, seed, 4.0));
    }
    tell("The first half minute without a store, callers come back to another Envoy", suite::wanderers(seed));
    tell("From ten seconds after a trouble of half a minute on", suite::recoveries(10, seed));
    tell("A store that answers about the timeout of 50 ms or later", suite::sluggish(10, seed, 4.0));
    if failed > 0 { std::process::ExitCode::FAILURE } else { std::process::ExitCode::SUCCESS }
}

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::io::Result<std::process::ExitCode> {
    use envoy_backpressure::sim::suite::{self, Kind};
    use envoy_backpressure::sim::{figures, loads, report};
    use std::process::ExitCode;

    if std::env::args().nth(1).as_deref() == Some("fleet") {
        return Ok(fleets(std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(1)));
    }
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    if let Some(part) = std::env::args().nth(2) {
        let mut all = loads::published();
        all.extend(loads::further());
        all.extend([loads::abandoning(0.7), loads::crowd()]);
        for load in all.into_iter().filter(|load| load.name.contains(&part)) {
            println!("{}", load.name);
            // The rule on paper looks at every waiting call in every decision.
            let kinds = [Kind::Gate, Kind::Strict, Kind::Paper];
            for kind in kinds.iter().take(if load.groups.len() > 1_000 { 2 } else { 3 }) {
                println!("  {}", kind.play(&load, seed).line());
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let runs = suite::published_runs(seed);
    let demands = suite::demands(&runs, seed);
    let beyond = suite::further_demands(seed);
    let published = suite::against_published(&runs, seed);
    print!("{}", report::table("Demanded and measured", &demands));
    println!();
    print!("{}", report::table("Beyond those loads", &beyond));
    println!();
    print!("{}", report::table("Against the published worker-side gate", &published));
    for row in &runs {
        println!("\n{}", row.first().map_or("", |run| run.load.name));
        row.iter().for_each(|run| println!("  {}", run.line()));
    }
    println!("\nFurther loads (gate, then gate with a strict window)");
    for load in loads::further() {
        println!("{}", load.name);
        for kind in [Kind::Gate, Kind::Strict] {
            println!("  {}", kind.play(&load, seed).line());
        }
    }

    let baselines_first = |row: &Vec<report::Run>| {
        let order = [2, 3, 4, 0];
        order.iter().filter_map(|column| row.get(*column)).cloned().collect::<Vec<_>>()
    };
    let row = |name: &str| {
        let found = runs.iter().find(|row| row.first().is_some_and(|run| run.load.name == name));
        found.map(baselines_first).unwrap_or_default()
    };
    let token_bound = row(loads::token_bound().name);
    let charts = [
        ("shares.svg", figures::shares(&row(loads::late_high().name))),
        ("waits.svg", figures::waits(&token_bound)),
        ("use.svg", figures::utilisation(&[token_bound, row(loads::abandoning(0.7).name)])),
    ];
    std::fs::create_dir_all("docs/figures")?;
    for (name, chart) in charts {
        std::fs::write(format!("docs/figures/{name}"), chart.to_svg())?;
    }
    let met = demands.iter().chain(&beyond).chain(&published).all(suite::Demand::is_met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The simulator is native only.
#[cfg(target_arch = "wasm32")]
fn main() {}
