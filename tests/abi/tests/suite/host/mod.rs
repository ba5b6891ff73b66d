//! The host against a probe filter: are the rules those of Envoy?

mod ending;
mod faults;
mod flow;
mod shared;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use abi_host::module::Compiled;
use abi_host::{Headers, Host, Options};

/// The probe filter, built and compiled once per test process.
fn probe() -> Arc<Compiled> {
    static PROBE: OnceLock<Arc<Compiled>> = OnceLock::new();
    PROBE
        .get_or_init(|| {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("probe");
            let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
                .args(["build", "--quiet", "--release", "--target", "wasm32-wasip1", "--target-dir"])
                .arg(dir.join("target"))
                .env_remove("RUSTFLAGS")
                .current_dir(&dir)
                .status()
                .expect("cargo runs");
            assert!(status.success(), "the probe filter does not build");
            Compiled::load(&dir.join("target/wasm32-wasip1/release/abi_probe.wasm"), false)
        })
        .clone()
}

fn start(workers: usize) -> Host {
    Host::start(Options::of(probe()).workers(workers), "plain").expect("the probe accepts this")
}

fn start_without_flag() -> Host {
    let options = Options { allow_stop: false, ..Options::of(probe()) };
    Host::start(options, "plain").expect("the probe accepts this")
}

fn post(orders: &str) -> Headers {
    Headers::from_text(&[(":method", "POST"), (":path", "/p?q"), (":authority", "a.test"), ("x-do", orders)])
}

fn ok() -> Headers {
    Headers::from_text(&[(":status", "200"), ("content-type", "text/plain")])
}

/// Log lines since the last call of this function.
fn lines(host: &Host) -> Vec<String> {
    host.world.borrow_mut().logs.drain(..).map(|(_, line)| line).collect()
}
