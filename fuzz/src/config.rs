//! A configuration of any bytes.

use envoy_backpressure::check;
use envoy_backpressure::config;
use envoy_backpressure::session::Plan;

/// The bytes are JSON text or a serialized Struct, as Envoy passes them.
pub fn check(input: &[u8]) {
    let first = config::parse(input);
    let all = config::parse_all(input);
    assert_eq!(first.is_ok(), all.is_ok());
    if let Err(errors) = &all {
        assert!(!errors.is_empty());
        for error in errors {
            assert!(error.to_string().len() < 4_096, "a log line of {} bytes", error.to_string().len());
        }
    }
    if let Ok(config) = first {
        assert!(!config.pools.is_empty() && config.pools.len() <= 256);
        let text = check::explain(&config);
        assert!(!text.is_empty());
        assert_eq!(Plan::new(config.clone()).pools.len(), config.pools.len());
    }
}
