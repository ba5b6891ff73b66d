//! The access-log field: filter state `wasm.backpressure`, compact JSON.

use crate::cost::json::quote;

/// What one call's log field says.
#[derive(Clone, Copy, Debug)]
pub struct LogField<'a> {
    /// The decision's name.
    pub decision: &'a str,
    /// Why, when it was not simply admitted.
    pub reason: Option<&'a str>,
    /// Pool name.
    pub pool: &'a str,
    /// Class name.
    pub class: &'a str,
    /// Configured tenant name, or `other`.
    pub tenant: &'a str,
    /// LLM tokens reserved.
    pub reserved: u64,
    /// LLM tokens used; `None` until settled.
    pub used: Option<u64>,
    /// Time waited inside Envoy, or told to the caller, in ms.
    pub wait_ms: u64,
}

impl LogField<'_> {
    /// The field as JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(160);
        out.push_str("{\"decision\":");
        quote(&mut out, self.decision);
        if let Some(reason) = self.reason {
            out.push_str(",\"reason\":");
            quote(&mut out, reason);
        }
        for (name, value) in [("pool", self.pool), ("class", self.class), ("tenant", self.tenant)] {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            quote(&mut out, value);
        }
        for (name, value) in [
            (",\"reserved\":", Some(self.reserved)),
            (",\"used\":", self.used),
            (",\"wait_ms\":", Some(self.wait_ms)),
        ] {
            if let Some(value) = value {
                out.push_str(name);
                out.push_str(&value.to_string());
            }
        }
        out.push('}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_json_whatever_the_names_hold() {
        let field = LogField {
            decision: "denied",
            reason: Some("exhausted"),
            pool: "a\"b\\\n",
            class: "high",
            tenant: "other",
            reserved: 12,
            used: None,
            wait_ms: 900,
        };
        let value: serde_json::Value = serde_json::from_str(&field.to_json()).unwrap();
        assert_eq!(value["pool"], "a\"b\\\n");
        assert_eq!(value["wait_ms"], 900);
        assert!(value.get("used").is_none());
    }
}
