//! `simulate [seed]`: plays the published loads against the gate and the baselines, prints the tables and writes the
//! figures into `docs/figures/`.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::io::Result<()> {
    use envoy_backpressure::sim::baseline::{FirstCome, NaiveRetry, TimeToRefill};
    use envoy_backpressure::sim::report::Run;
    use envoy_backpressure::sim::world::beginning;
    use envoy_backpressure::sim::{figures, loads, play};

    let run = |load: &envoy_backpressure::sim::Load| -> Vec<Run> {
        println!("{}", load.name);
        let now = beginning();
        [
            play(load, &mut NaiveRetry, 1),
            play(load, &mut TimeToRefill::new(load.policy(), now), 1),
            play(load, &mut FirstCome::new(load.policy(), now), 1),
        ]
        .into_iter()
        .map(|outcome| Run { load: load.clone(), outcome })
        .inspect(|run| println!("  {}", run.line()))
        .collect()
    };
    let [token, .., late] = loads::published()
        .iter()
        .map(run)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or([const { Vec::new() }; 5]);
    let gone = run(&loads::abandoning(0.7));
    std::fs::write("docs/figures/shares.svg", figures::shares(&late).to_svg())?;
    std::fs::write("docs/figures/waits.svg", figures::waits(&token).to_svg())?;
    std::fs::write("docs/figures/use.svg", figures::utilisation(&[token, gone]).to_svg())?;
    Ok(())
}

/// The simulator is native only.
#[cfg(target_arch = "wasm32")]
fn main() {}
