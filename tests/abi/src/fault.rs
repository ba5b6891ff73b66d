//! Host calls that misbehave on demand.

/// What happens instead of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is done and this status is returned (any number: the host may be of another version).
    Status(u32),
    /// The virtual machine traps before the call has an effect.
    TrapBefore,
    /// The virtual machine traps after the call took effect.
    TrapAfter,
}

/// One rule: which call, after how many good ones, how often.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Name of the host call, with or without `proxy_`.
    pub call: String,
    /// What happens.
    pub effect: Effect,
    /// This many calls still work.
    pub skip: u64,
    /// Then this many do not.
    pub times: u64,
}

impl Fault {
    /// Fails the next `times` calls with a status.
    pub fn status(call: &str, status: u32, times: u64) -> Self {
        Self { call: call.to_owned(), effect: Effect::Status(status), skip: 0, times }
    }

    /// Traps at the next call.
    pub fn trap(call: &str, effect: Effect) -> Self {
        Self { call: call.to_owned(), effect, skip: 0, times: 1 }
    }

    fn concerns(&self, call: &str) -> bool {
        call == self.call || call.strip_prefix("proxy_") == Some(self.call.as_str())
    }
}

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Fault>,
}

impl Faults {
    /// Adds a rule.
    pub fn add(&mut self, fault: Fault) {
        self.rules.push(fault);
    }

    /// Drops all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// How often rules for `call` may still strike.
    pub fn pending(&self, call: &str) -> u64 {
        self.rules.iter().filter(|rule| rule.concerns(call)).map(|rule| rule.times).sum()
    }

    /// Counts one call and says whether a rule strikes.
    pub fn strike(&mut self, call: &str) -> Option<Effect> {
        let rule = self.rules.iter_mut().find(|rule| rule.times > 0 && rule.concerns(call))?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.times -= 1;
        Some(rule.effect)
    }
}
