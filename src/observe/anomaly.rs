//! Named causes of everything that did not go as planned. Each is a counter, a rate-limited log line and a row in
//! `docs/failure-modes.md`.

macro_rules! anomalies {
    ($($variant:ident, $name:literal, $text:literal;)*) => {
        /// Something that did not go as planned; calls pass all the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Anomaly {
            $(#[doc = $text] $variant,)*
        }

        impl Anomaly {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Value of the `reason` label.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What happened, for the log.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

anomalies! {
    CasExhausted, "cas_exhausted", "other workers kept changing the ledger; the call passed and is charged later";
    LedgerCorrupt, "ledger_corrupt", "the shared ledger was not ours or damaged; the call passed and the ledger starts anew";
    LedgerNewer, "ledger_newer", "the shared ledger was written by a newer version; the call passed and the ledger was left alone";
    HostCallFailed, "host_call_failed", "a host call failed; the call passed";
    ClockMissing, "clock_missing", "the host gave no time; the call passed";
    BodyUnreadable, "body_unreadable", "the request body was not readable JSON; priced by its length";
    BodyTruncated, "body_truncated", "the beginning of a long request body was not readable JSON; priced by its length";
    BodyHidden, "body_hidden", "the host shows no body while headers are held: set allow_on_headers_stop_iteration or hold_headers false; the headers went on and the call is decided at the end of its body";
    UsageMissing, "usage_missing", "the response stated no usable usage; settled from estimates";
    UsagePartial, "usage_partial", "the response stated usage of which a part was missing or nonsense; that part was estimated";
    UsageUnreadable, "usage_unreadable", "the response was damaged or encoded in a way that cannot be read; settled from estimates";
    StreamError, "stream_error", "the upstream reported an error inside a response";
    SettleDeferred, "settle_deferred", "a settlement could not be written at once and is tried again at the tick";
    SettleLate, "settle_late", "a call ended after its reservation had expired at its estimate";
    OwedDropped, "owed_dropped", "too many writes were waiting; one was given up";
    SuggestionUnreadable, "suggestion_unreadable", "the learned output sizes were not readable and start anew";
    FleetUnreachable, "fleet_unreachable", "the fleet's store did not answer in time; decided by this Envoy's own ledger";
    FleetRefused, "fleet_refused", "the fleet's store refused, for example for want of memory or of a password; decided by this Envoy's own ledger";
    FleetForeign, "fleet_foreign", "the fleet's store holds something else under the pool's keys; decided by this Envoy's own ledger";
    FleetGarbled, "fleet_garbled", "the fleet's store answered something unreadable; decided by this Envoy's own ledger";
    FleetAlone, "fleet_alone", "a call was decided by this Envoy's own ledger: the fleet's store is unwell, or the body too long to be held";
    ReplyFailed, "reply_failed", "the host did not send a refusal; the call passed";
}
