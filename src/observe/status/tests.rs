#![allow(clippy::arithmetic_side_effects)]

use super::page::{Form, MOST_BYTES, SCRIPT_HASH, STYLE_HASH, form, headers, is_status_path, page};
use super::*;
use crate::units::PerResource;

fn sample() -> Snapshot {
    let mut limits: Limits = PerResource::from_fn(|_| None);
    limits.requests = Some(60);
    let pool = PoolView {
        paused_ms: Some(12_000),
        flows: vec![FlowView {
            class: "high".to_owned(),
            tenant: "a\"c\\me\n".to_owned(),
            waiting: 3,
            entitled_permille: 667,
            received_permille: 660,
            returning_permille: 1_000,
        }],
        returns: vec![ReturnView { class: "high".to_owned(), tenant: "other".to_owned(), in_ms: 900 }],
        readable: true,
        ..PoolView::unreadable("m-chat", &limits)
    };
    Snapshot {
        version: "1.2.3",
        mode: "enforce",
        at_ms: 1_700_000_000_000,
        pools: vec![pool],
        denials: vec![DenialView {
            ago_ms: 5,
            pool: "m-chat".to_owned(),
            class: "low".to_owned(),
            tenant: "other".to_owned(),
            reason: "exhausted",
            told_ms: None,
        }],
        anomalies: vec![("usage_missing", 2), ("cas_exhausted", 1)],
        owed: 7,
    }
}

#[test]
fn json_says_everything_whatever_the_names_hold() {
    let value: serde_json::Value = serde_json::from_str(&sample().to_json()).unwrap();
    let pool = &value["pools"][0];
    assert_eq!(
        pool["limits"][0],
        serde_json::json!({"resource":"requests","limit":60,"at_once":60,"remaining":0,"reset_ms":0})
    );
    assert_eq!(pool["flows"][0]["tenant"], "a\"c\\me\n");
    assert_eq!(pool["returns"][0]["in_ms"], 900);
    assert_eq!(pool["paused_ms"], 12_000);
    assert_eq!(pool["mean_duration_ms"], serde_json::Value::Null);
    assert_eq!(value["denials"][0]["told_ms"], serde_json::Value::Null);
    assert_eq!(value["anomalies"]["usage_missing"], 2);
    assert_eq!(value["owed"], 7);
}

#[test]
fn an_empty_snapshot_is_json_too() {
    let value: serde_json::Value = serde_json::from_str(&Snapshot::default().to_json()).unwrap();
    assert_eq!(value["pools"], serde_json::json!([]));
    assert_eq!(value["anomalies"], serde_json::json!({}));
}

#[test]
fn the_policy_names_the_inline_script_and_style() {
    let digest = |text: &str| {
        use sha2::Digest as _;
        base64(&sha2::Sha256::digest(text.as_bytes()))
    };
    assert_eq!(digest(include_str!("page/page.js")), SCRIPT_HASH, "set SCRIPT_HASH to the left value");
    assert_eq!(digest(include_str!("page/page.css")), STYLE_HASH, "set STYLE_HASH to the left value");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[((group >> (18 - 6 * place)) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[test]
fn the_page_is_small_and_asks_nobody_else() {
    let page = String::from_utf8(page()).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</script></body></html>\n"));
    assert!(page.contains(include_str!("page/page.js")) && page.contains(include_str!("page/page.css")));
    assert!(page.len() < MOST_BYTES && page.is_ascii(), "{} bytes", page.len());
    // The name space of SVG is the only address in it.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "//", "@import", "url(", "innerHTML"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn programs_get_json_and_browsers_the_page() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for (accept, expected) in [
        (browser, Form::Html),
        ("", Form::Html),
        ("*/*", Form::Html),
        ("application/json", Form::Json),
        ("Application/JSON; charset=utf-8", Form::Json),
        ("application/json, text/plain, */*", Form::Json),
        ("text/html, application/json;q=0.9", Form::Html),
        ("text/html;q=0.4, application/json;q=0.5", Form::Json),
        ("application/json;q=0", Form::Html),
        ("application/json;q=0.000", Form::Html),
        ("application/json;q=x", Form::Json),
        ("application/jsonp", Form::Html),
    ] {
        assert_eq!(form(accept.as_bytes()), expected, "{accept}");
    }
    assert_eq!(form(b"\xff\xfe, application/json"), Form::Json);
}

#[test]
fn only_the_very_path_is_the_status_path() {
    for (path, expected) in [
        ("/status", true),
        ("/status?x=1", true),
        ("/status/", false),
        ("/Status", false),
        ("/v1/status", false),
        ("", false),
    ] {
        assert_eq!(is_status_path(path.as_bytes(), "/status"), expected, "{path}");
    }
}

#[test]
fn answers_are_never_stored_or_framed() {
    for form in [Form::Html, Form::Json] {
        let headers = headers(form);
        let value =
            |name| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str());
        assert_eq!(value("cache-control"), Some("no-store"));
        assert!(value("content-security-policy").unwrap().starts_with("default-src 'none'; "));
    }
}

fn config() -> crate::config::Config {
    let text = serde_json::json!({
        "classes": {"high": {"weight": 4}, "low": {"weight": 1}},
        "default_class": "low",
        "tenants": {"acme": {}},
        "pools": [{"name": "p", "limits": {"requests_per_minute": 10, "concurrent_requests": 2}}],
    });
    crate::config::parse(text.to_string().as_bytes()).unwrap()
}

fn share(class: u8, tenant: u32, waiting: u32, entitled: u32) -> crate::gate::FlowShare {
    crate::gate::FlowShare {
        flow: crate::gate::Flow {
            class: crate::config::ClassId(class),
            tenant: crate::gate::TenantKey(tenant),
            class_weight: 1,
            tenant_weight: 1,
        },
        waiting,
        entitled_permille: entitled,
        received_permille: entitled,
        returning_permille: 1_000,
    }
}

#[test]
fn tenants_that_the_configuration_does_not_name_are_shown_as_one() {
    let config = config();
    let acme = config.tenants[0].key.0;
    let summary = crate::gate::Summary {
        flows: vec![share(1, 0x8000_0001, 1, 100), share(1, acme, 2, 300), share(1, 0x8000_0002, 3, 500)],
        scale_permille: 1_000,
        ..Default::default()
    };
    let view = build::pool(&config, &config.pools[0], &summary, &PerResource::from_fn(|_| None), 0);
    let rows: Vec<_> =
        view.flows.iter().map(|flow| (flow.tenant.as_str(), flow.waiting, flow.entitled_permille)).collect();
    assert_eq!(rows, [("other", 4, 600), ("acme", 2, 300)]);
    assert!(view.flows.iter().all(|flow| flow.class == "low" && flow.returning_permille == 1_000));
}

#[test]
fn an_idle_pool_shows_its_limits_whole() {
    let config = config();
    let policy = crate::gate::Policy {
        limits: config.pools[0].limits,
        burst: crate::units::Span::from_secs(60),
        strict_window: false,
        reservation_ttl: crate::units::Span::from_secs(600),
    };
    let now = crate::units::Timestamp::from_millis(1_700_000_000_000);
    let ledger = crate::gate::ledger::Ledger::new(now);
    let standings = crate::gate::standing::standings(&ledger, &policy, now);
    let summary = crate::gate::standing::summary(&ledger, &policy, now, build::MOST_FLOWS);
    let view = build::pool(&config, &config.pools[0], &summary, &standings, 0);
    let limits: Vec<_> =
        view.limits.iter().map(|limit| (limit.resource.name(), limit.limit, limit.remaining)).collect();
    assert_eq!(limits, [("requests", 10, 10), ("concurrency", 2, 2)]);
    assert_eq!((view.paused_ms, view.scale_permille, view.booked), (None, 1_000, 0));
}

#[test]
fn a_worker_remembers_only_its_latest_refusals() {
    use crate::observe::metrics::{Labels, TenantLabel};
    use crate::units::{Span, Timestamp};
    let labels = Labels { pool: 0, class: 1, tenant: TenantLabel::Other };
    let mut denials = denials::Denials::default();
    for second in 0..200 {
        let told = (second != 199).then(|| Span::from_millis(second));
        denials.push(labels, "exhausted", told, Timestamp::from_millis(second * 1_000));
    }
    let views = denials.views(&config(), Timestamp::from_millis(200_000));
    assert_eq!(views.len(), MOST_DENIALS);
    let newest = &views[0];
    assert_eq!((newest.ago_ms, newest.pool.as_str(), newest.class.as_str()), (1_000, "p", "low"));
    assert_eq!((newest.tenant.as_str(), newest.reason, newest.told_ms), ("other", "exhausted", None));
    assert_eq!(views[1].told_ms, Some(198));
}
