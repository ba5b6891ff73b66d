//! Local replies, end callbacks, reloads.

use abi_host::stream::LocalReply;
use abi_host::{Host, Options, ReplyOrigin};

use super::{lines, ok, post, probe, start};

#[test]
fn the_filters_own_reply_comes_back_through_its_response_callbacks() {
    let mut host = start(1);
    lines(&host);
    let call = host.open(0, post("reply"), false);
    host.request_body(call, b"ignored", true);
    assert_eq!(
        lines(&host),
        [
            "request headers 4 false",
            "response headers 4 false 0  [173, 1, 0, 0, 0, 0, 0, 0]",
            "response body 2 true"
        ]
    );
    let stream = host.stream(call);
    assert_eq!(stream.client_status(), Some(429));
    assert_eq!(stream.client_header("retry-after").as_deref(), Some("7"));
    assert_eq!(stream.response.sent.body, b"no");
    assert_eq!(stream.replied_by, Some(ReplyOrigin::Filter));
    assert!(!stream.reached_upstream());
}

#[test]
fn a_reply_from_a_tick_reaches_the_parked_call() {
    let mut host = start(2);
    let call = host.open(1, post("park-reply"), true);
    host.advance_millis(10);
    assert_eq!(host.stream(call).client_status(), Some(429));
    assert_eq!(host.world.borrow().violations, [""; 0]);
}

#[test]
fn releasing_many_calls_in_one_tick_nests() {
    let mut host = start(1);
    for _ in 0..20 {
        let _ = host.open(0, post("park-reply"), true);
    }
    host.advance_millis(10);
    assert!(host.world.borrow().max_nesting >= 20);
}

#[test]
fn a_later_filters_reply_shows_its_details() {
    let mut host = start(1);
    let call = host.open(0, post("pass"), true);
    lines(&host);
    let details = "rbac_access_denied".to_owned();
    host.local_reply(call, LocalReply { status: 403, details, ..LocalReply::default() });
    assert!(lines(&host)[0].starts_with("response headers 1 true 2 rbac_access_denied"));
    host.response_headers(call, ok(), true);
    assert_eq!(host.stream(call).client_status(), Some(403), "nothing comes from the upstream any more");
}

#[test]
fn a_call_ends_with_log_done_delete_and_its_context_is_gone() {
    let mut host = start(1);
    let call = host.open(0, post("state,park"), true);
    lines(&host);
    host.end(call);
    // In the log callback maps may be read; a header that is not there is 1, a map that never was is 1 as well.
    assert_eq!(lines(&host), ["log 0 1", "done", "dropped"]);
    host.advance_millis(10);
    assert_eq!(lines(&host).len(), 1, "the tick finds the call gone");
    assert_eq!(host.stream(call).filter_state["wasm.probe"], b"kept");
}

#[test]
fn properties_are_those_of_the_call() {
    let mut host = start(1);
    lines(&host);
    let path = b"metadata\0filter_metadata\0jwt\0org".to_vec();
    let _ = host.open_with(0, post("state"), true, [(path, b"acme".to_vec())].into());
    let _ = host.open(0, post("state"), true);
    let seen = lines(&host);
    assert_eq!((seen[1].as_str(), seen[3].as_str()), ("org 0 acme", "org 1 "));
}

#[test]
fn a_refused_configuration_leaves_the_old_one() {
    assert!(Host::start(Options::of(probe()), "refuse").is_err());
    let mut host = start(1);
    assert!(host.configure("refuse").is_err());
    let call = host.open(0, post("pass"), true);
    assert!(host.stream(call).reached_upstream());
}

#[test]
fn after_a_new_configuration_old_calls_keep_their_root_and_its_ticks() {
    let mut host = start(1);
    let old = host.open(0, post("park"), true);
    host.configure("second").expect("accepted");
    assert_eq!(host.vm(0).state().roots.len(), 2);
    host.advance_millis(10);
    assert!(host.stream(old).reached_upstream());
    host.end(old);
    assert_eq!(host.vm(0).state().roots.len(), 1, "the old root goes with its last call");
}
