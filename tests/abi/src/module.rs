//! Finding and compiling the module under test.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use wasmtime::{Config, Engine, Linker, Module};

use crate::state::VmState;
use crate::{env, wasi};

/// A compiled module with its linked host functions.
pub struct Compiled {
    pub engine: Engine,
    pub module: Module,
    pub linker: Linker<VmState>,
    /// Instructions are counted.
    pub metered: bool,
}

impl Compiled {
    /// Compiles the module at `path`.
    pub fn load(path: &Path, metered: bool) -> Arc<Self> {
        let bytes =
            std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let mut config = Config::new();
        config.consume_fuel(metered);
        let engine = Engine::new(&config).expect("the engine's settings are valid");
        let module = Module::new(&engine, &bytes).expect("the module is valid WebAssembly");
        let mut linker = Linker::new(&engine);
        env::link(&mut linker).expect("each proxy function is defined once");
        wasi::link(&mut linker).expect("each WASI function is defined once");
        Arc::new(Self { engine, module, linker, metered })
    }
}

/// Root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the filter is: `BACKPRESSURE_WASM`, else `target/backpressure.wasm`.
pub fn filter_path() -> PathBuf {
    let path = std::env::var_os("BACKPRESSURE_WASM")
        .map_or_else(|| workspace().join("target/backpressure.wasm"), PathBuf::from);
    assert!(
        path.is_file(),
        "{} is missing: run `make build` first, or name the module in BACKPRESSURE_WASM",
        path.display()
    );
    path
}

/// The filter, compiled once per test process.
pub fn filter() -> Arc<Compiled> {
    static FILTER: OnceLock<Arc<Compiled>> = OnceLock::new();
    FILTER.get_or_init(|| Compiled::load(&filter_path(), false)).clone()
}

/// The filter with its instructions counted, compiled once per test process.
pub fn metered_filter() -> Arc<Compiled> {
    static FILTER: OnceLock<Arc<Compiled>> = OnceLock::new();
    FILTER.get_or_init(|| Compiled::load(&filter_path(), true)).clone()
}
