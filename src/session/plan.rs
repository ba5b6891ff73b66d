//! What the configuration means for the running filter, worked out once at load.

use crate::config::Config;
use crate::gate::Policy;

/// One pool, ready to be used.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// What the gate allows.
    pub policy: Policy,
    /// Shared-data key of the ledger.
    pub ledger_key: String,
    /// Shared-data key of the learned output sizes.
    pub suggestion_key: String,
}

/// A configuration with everything that follows from it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The validated configuration.
    pub config: Config,
    /// In the order of [`Config::pools`].
    pub pools: Vec<PoolPlan>,
}

impl Plan {
    /// Works out the plan of a configuration.
    pub fn new(config: Config) -> Self {
        let pools = config
            .pools
            .iter()
            .map(|pool| PoolPlan {
                policy: pool.policy(&config),
                // Keys are by name, so that a reload finds the counters of a pool whose name stays.
                ledger_key: format!("bp.ledger.{}", pool.name),
                suggestion_key: format!("bp.output.{}", pool.name),
            })
            .collect();
        Self { config, pools }
    }
}
