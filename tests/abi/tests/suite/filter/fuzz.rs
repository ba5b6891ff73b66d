//! Random sequences of callbacks, host failures, reloads and clock steps: nothing traps and nothing leaks.

use abi_host::case::{Answer, Bench, Verdict, bench_config, case_bytes, chat_body};
use abi_host::stream::LocalReply;
use abi_host::{Fault, Headers, Options, StreamId};
use serde_json::{Value, json};

/// A small generator; the same seed gives the same sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

const PATHS: [&[u8]; 14] = [
    b"/v1/chat/completions",
    b"/v1/messages",
    b"/v1/responses",
    b"/v1/embeddings",
    b"/v1beta/models/m-chat:streamGenerateContent?alt=sse",
    b"/model/anthropic.claude-3%3A0/invoke-with-response-stream",
    b"/model/m/converse-stream",
    b"/openai/deployments/m-chat/chat/completions?api-version=1",
    b"/v2/chat",
    b"/api/chat",
    b"/",
    b"",
    b"/v1/chat/\xff\xfe%zz%",
    b"/v1/audio/transcriptions",
];

const CALLS: [&str; 14] = [
    "get_shared_data",
    "set_shared_data",
    "get_header_map_value",
    "get_header_map_pairs",
    "get_buffer_bytes",
    "set_property",
    "get_property",
    "increment_metric",
    "record_metric",
    "get_current_time_nanoseconds",
    "replace_header_map_value",
    "add_header_map_value",
    "remove_header_map_value",
    "log",
];

struct Fuzz {
    bench: Bench,
    random: Random,
    open: Vec<StreamId>,
    bodies: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    workers: usize,
    stepped: bool,
}

impl Fuzz {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed | 1);
        let workers = 1 + random.below(3);
        let allow_stop = random.chance(70);
        let options = Options { allow_stop, ..Options::filter().workers(workers) };
        let shape = random.below(1 << 16);
        let bench = Bench::start(options, |config| vary(config, shape, allow_stop));
        let files = [
            "JSON-DECOY.json",
            "JSON-BOM.bin",
            "ENC-REQUEST.gzip.bin",
            "OUT-TWO-CAPS.json",
            "JSON-BROKEN.6.bin",
        ];
        let mut bodies: Vec<Vec<u8>> = files.iter().map(|name| case_bytes(name)).collect();
        bodies.extend([chat_body(100), chat_body(9_999), Vec::new()]);
        let files = [
            "SSE-SPLIT.sse",
            "SSE-CRLF.sse",
            "USE-ANTHROPIC.sse",
            "USE-ERROR-EVENT.sse",
            "USE-NULL.sse",
            "ENC-GZIP.bin",
            "CACHE-OPENAI.json",
            "NUM-NEG-USAGE.json",
        ];
        let answers = files.iter().map(|name| case_bytes(name)).collect();
        Self { bench, random, open: Vec::new(), bodies, answers, workers, stepped: false }
    }

    fn headers(&mut self) -> Headers {
        let random = &mut self.random;
        let mut headers = Headers::default();
        headers
            .add(b":method", random.pick(&["POST", "POST", "POST", "GET", "PUT", "CONNECT", ""]).as_bytes());
        headers.add(b":path", random.pick(&PATHS));
        if random.chance(95) {
            headers.add(b":authority", random.pick(&["llm.test", "LLM.TEST", "other", ""]).as_bytes());
        }
        for _ in 0..random.below(6) {
            let name = random.pick(&[
                "x-tenant",
                "x-priority",
                "content-length",
                "content-type",
                "content-encoding",
                "authorization",
                "x-stainless-retry-count",
                "accept-encoding",
                "upgrade",
            ]);
            let value: Vec<u8> = match random.below(5) {
                0 => random.bytes(40),
                1 => b"acme".to_vec(),
                2 => b"18446744073709551615".to_vec(),
                3 => b"gzip".to_vec(),
                _ => b"high".to_vec(),
            };
            headers.add(name.as_bytes(), &value);
        }
        headers
    }

    fn response(&mut self) -> Headers {
        let random = &mut self.random;
        let mut headers = Headers::default();
        let status =
            random.pick(&["200", "200", "200", "429", "400", "503", "529", "204", "", "abc", "99999", "101"]);
        headers.add(b":status", status.as_bytes());
        for _ in 0..random.below(5) {
            let name = random.pick(&[
                "content-type",
                "content-encoding",
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
                "anthropic-ratelimit-tokens-reset",
                "x-ratelimit-remaining-requests",
            ]);
            let value: Vec<u8> = match random.below(8) {
                0 => random.bytes(20),
                1 => b"text/event-stream".to_vec(),
                2 => b"application/json".to_vec(),
                3 => b"gzip".to_vec(),
                4 => b"-1".to_vec(),
                5 => b"99999999999999999999".to_vec(),
                6 => b"6m0s".to_vec(),
                _ => b"0".to_vec(),
            };
            headers.add(name.as_bytes(), &value);
        }
        headers
    }

    fn part(&mut self, answer: bool) -> Vec<u8> {
        if self.random.chance(15) {
            return self.random.bytes(300);
        }
        let pool = if answer { &self.answers } else { &self.bodies };
        let mut bytes = pool[self.random.below(pool.len())].clone();
        if self.random.chance(30) {
            let at = self.random.below(bytes.len() + 1);
            bytes.truncate(at);
        }
        if self.random.chance(20) && !bytes.is_empty() {
            let at = self.random.below(bytes.len());
            bytes[at] = self.random.below(256) as u8;
        }
        bytes
    }

    fn step(&mut self) {
        let what = self.random.below(100);
        let end = self.random.chance(40);
        if what < 25 || self.open.is_empty() {
            let (worker, headers) = (self.random.below(self.workers), self.headers());
            let id = self.bench.host.open(worker, headers, end && self.random.chance(30));
            self.open.push(id);
            return;
        }
        let id = self.open[self.random.below(self.open.len())];
        match what {
            25..45 => {
                let bytes = self.part(false);
                if !self.bench.host.stream(id).request.ended {
                    self.bench.host.request_body(id, &bytes, end);
                }
            }
            45..47 => {
                if !self.bench.host.stream(id).request.ended {
                    self.bench.host.request_trailers(id, Headers::from_text(&[("t", "1")]));
                }
            }
            47..57 => {
                let headers = self.response();
                if self.bench.host.stream(id).response.headers.is_none() {
                    self.bench.host.response_headers(id, headers, end && self.random.chance(20));
                }
            }
            57..72 => {
                let bytes = self.part(true);
                let half = &self.bench.host.stream(id).response;
                if half.headers.is_some() && !half.ended {
                    self.bench.host.response_body(id, &bytes, end);
                }
            }
            72..74 => {
                let half = &self.bench.host.stream(id).response;
                if half.headers.is_some() && !half.ended {
                    self.bench.host.response_trailers(id, Headers::from_text(&[("t", "1")]));
                }
            }
            74..76 => {
                let reply = LocalReply {
                    status: 503,
                    details: "no_healthy_upstream".into(),
                    ..LocalReply::default()
                };
                if self.bench.host.stream(id).replied_by.is_none() {
                    self.bench.host.local_reply(id, reply);
                }
            }
            76..80 => self.bench.host.reset(id),
            80..88 => {
                if self.random.chance(20) {
                    self.bench.host.log(id);
                    self.bench.host.done(id);
                }
                self.bench.host.end(id);
                self.open.retain(|open| *open != id);
                self.bench.host.forget(id);
            }
            88..93 => {
                let millis = self.random.pick(&[&1_u64, &20, &300, &2_000, &70_000]);
                self.bench.host.advance_millis(*millis);
            }
            93..96 => {
                let call = self.random.pick(&CALLS);
                let status = [1, 2, 3, 4, 6, 7, 8, 10, 12, 77][self.random.below(10)];
                let times = 1 + self.random.below(12) as u64;
                self.bench.host.world.borrow_mut().faults.add(Fault::status(call, status, times));
            }
            96 if self.random.chance(10) => {
                self.stepped = true;
                let by = (self.random.below(7_200) as i64 - 3_600) * 1_000_000_000;
                self.bench.host.world.borrow_mut().clock.step_wall(by);
            }
            96..98 => {
                self.bench.host.world.borrow_mut().faults.clear();
                let shape = self.random.below(1 << 16);
                let mut config = bench_config();
                vary(&mut config, shape, self.bench.host.options.allow_stop);
                self.bench.host.configure(&config.to_string()).expect("accepted");
            }
            _ => {
                let keys: Vec<Vec<u8>> = {
                    let world = self.bench.host.world.borrow();
                    world.data.entries().map(|(key, _)| key.to_vec()).collect()
                };
                if !keys.is_empty() && self.random.chance(20) {
                    let key = keys[self.random.below(keys.len())].clone();
                    let garbage = self.random.bytes(600);
                    self.bench.host.world.borrow_mut().data.plant(&key, &garbage);
                }
            }
        }
    }

    fn check(&self, seed: u64) {
        let world = self.bench.host.world.borrow();
        assert!(self.bench.host.alive(), "seed {seed}: {:?}", world.traps);
        assert!(world.violations.is_empty(), "seed {seed}: {:?}", world.violations);
        assert!(world.max_nesting <= 24, "seed {seed}: {} deferred actions nest", world.max_nesting);
    }

    /// Ends everything and sees whether a fresh call is treated as on an idle pool.
    fn finish(mut self, seed: u64) {
        self.bench.host.world.borrow_mut().faults.clear();
        for id in std::mem::take(&mut self.open) {
            self.bench.host.end(id);
        }
        let mut config = bench_config();
        config["hold_headers"] = self.bench.host.options.allow_stop.into();
        self.bench.host.configure(&config.to_string()).expect("accepted");
        self.bench.config = config;
        // Pauses that an upstream asked for, steps of the clock and holds whose end was lost are all over by then.
        self.bench.host.advance_secs(if self.stepped { 8_000 } else { 1_000 });
        self.check(seed);
        assert!(self.bench.in_flight() == 0, "seed {seed}: calls are in flight for ever");
        // A changed digit in an answer's usage is a debt of many minutes, which is right; it must end all the same.
        let mut id = self.bench.chat(100);
        for _ in 0..30 {
            if self.bench.verdict(id) == Verdict::Admit {
                break;
            }
            let field = self.bench.host.stream(id).log_field();
            assert_eq!(field["reason"], "exhausted", "seed {seed}: {field}");
            self.bench.host.end(id);
            self.bench.host.advance_secs(600);
            id = self.bench.chat(100);
        }
        assert_eq!(
            self.bench.verdict(id),
            Verdict::Admit,
            "seed {seed}: {}",
            self.bench.host.stream(id).log_field()
        );
        self.bench.finish(id, &Answer::usage(10, 10));
        self.check(seed);
    }
}

fn vary(config: &mut Value, shape: usize, allow_stop: bool) {
    let bit = |n: usize| shape >> n & 1 == 1;
    config["hold_headers"] = allow_stop.into();
    if bit(0) {
        config["mode"] = "shadow".into();
    }
    if bit(1) {
        config["identity"]["tenant"] = json!([{"api_key": true}, {"property": ["request", "host"]}]);
    }
    for pool in config["pools"].as_array_mut().expect("pools") {
        if bit(2) {
            pool["limits"]["concurrent_requests"] = 2.into();
        }
        if bit(3) && allow_stop {
            pool["max_wait_ms"] = 800.into();
        }
        if bit(4) {
            pool["learn"] = json!({"headers": true, "pause_on_429": true, "adapt": true});
        }
        if bit(5) && allow_stop {
            pool["inject_stream_usage"] = true.into();
        }
        if bit(6) {
            pool["strict_window"] = false.into();
        }
        if bit(7) {
            pool["output_reserve"] = "learned".into();
        }
        if bit(8) {
            pool["burst_seconds"] = 10.into();
        }
    }
    if bit(9) {
        config["body_limit_bytes"] = 64.into();
    }
}

fn sequences() -> u64 {
    std::env::var("ABI_FUZZ_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

#[test]
fn random_callbacks_never_trap_and_leave_nothing_behind() {
    let first = std::env::var("ABI_FUZZ_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in first..first + sequences() {
        let mut fuzz = Fuzz::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let steps = 20 + fuzz.random.below(100);
        for _ in 0..steps {
            fuzz.step();
        }
        fuzz.check(seed);
        // Waiting until everything is over takes most of the time: one sequence in eight goes that far.
        if seed % 8 == 0 {
            fuzz.finish(seed);
        }
    }
}
