//! Plain JSON answers.

use abi_host::case::{Answer, Bench, case_bytes, expand_repeats, play};

use super::{admitted, after_plain};

/// Usage may be cut across callbacks; the answer is neither held nor changed.
#[test]
fn case_resp_chunked() {
    let mut player = play("RESP-CHUNKED.jsonl", |_| {});
    let id = player.first_call();
    assert_eq!(player.bench.host.stream(id).client_header("content-length").as_deref(), Some("3191"));
}

/// An answer without usable figures is not free; an empty one frees its output.
#[test]
fn case_resp_missing() {
    let file = expand_repeats(&String::from_utf8(case_bytes("RESP-MISSING.c.json")).expect("UTF-8"));
    let at = file.find("\"usage\"").expect("the file has usage");
    let head = file[..at].trim_end().trim_end_matches(',');
    let variants = [
        ("no usage", format!("{head}}}")),
        ("null", format!("{head},\"usage\":null}}")),
        ("zeros", file.clone()),
        ("empty", format!("{head},\"usage\":{{}}}}")),
        ("cut off", head[..head.len() - 20].to_owned()),
    ];
    for (what, body) in variants {
        let bench = after_plain(&Answer::ok("application/json", body));
        let used = bench.tpm_used();
        assert!((200..=900).contains(&used), "{what}: {used} for 2 kB of words");
        assert_eq!(bench.counted(&["anomalies"]), 1, "{what}");
    }
    let mut bench = Bench::new();
    let id = admitted(&mut bench, 400);
    let input = bench.reserved(id) - 400;
    bench.finish(id, &Answer { status: 204, headers: Vec::new(), parts: Vec::new() });
    assert_eq!(bench.tpm_used(), input);
    let bench = after_plain(&Answer::ok("application/json", ""));
    assert_eq!(bench.tpm_used(), input);
}
