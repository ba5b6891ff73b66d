//! The `backpressure-check` command, apart from its arguments: finds plugin configurations in a file, judges them,
//! says in words what they do, and prices a call. Native only.

mod explain;
mod find;
mod price;
mod remarks;

pub use explain::explain;
pub use find::{Found, Host, find};
pub use price::{Call, price};
pub use remarks::remarks;

use crate::config::json::Json;
use crate::config::{Config, ConfigError};

/// Reads a file of YAML or JSON, also of several documents.
///
/// # Errors
/// The place and the kind of the first thing that is not YAML.
pub fn read(text: &str) -> Result<Documents, String> {
    // JSON is YAML, except that tabs may indent it and that a repeated key is ours to report.
    match read_json(text) {
        Ok(documents) => Ok(documents),
        Err(_) => serde_saphyr::from_multiple(text).map(Documents).map_err(|error| error.to_string()),
    }
}

/// Reads a file that must be JSON, without what YAML would forgive.
///
/// # Errors
/// The place and the kind of the first thing that is not JSON.
pub fn read_json(text: &str) -> Result<Documents, String> {
    serde_json::from_str(text).map(|document| Documents(vec![document])).map_err(|error| error.to_string())
}

/// The documents of a file.
pub struct Documents(Vec<Json>);

impl Found {
    /// Parses the configuration as the plugin would at its start.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(&self) -> Result<Config, Vec<ConfigError>> {
        match &self.body {
            Json::Text(text) => crate::config::parse_all(text.as_bytes()),
            tree => crate::config::parse::parse_tree(tree),
        }
    }
}
