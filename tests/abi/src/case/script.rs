//! Event scripts: one JSON object a line, loops expanded lazily in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base64::Engine as _;
use serde_json::Value;

use super::case_bytes;

/// One event at a moment.
#[derive(Clone, Debug)]
pub struct Event {
    /// Microseconds after the start of the script.
    pub at: u64,
    pub worker: usize,
    pub body: Value,
    /// The loop asks that refused calls come back when told.
    pub obeys: bool,
    /// Comes from a loop, so that no expectation names its call.
    pub looped: bool,
}

struct Source {
    events: Vec<(u64, String)>,
    start: u64,
    step: u64,
    count: u64,
    workers: usize,
    obeys: bool,
}

/// A script being read.
pub struct Script {
    sources: Vec<Source>,
    /// Moment, source, iteration, event: the order of the file breaks ties.
    heap: BinaryHeap<Reverse<(u64, usize, u64, usize)>>,
}

fn micros(value: &Value) -> Option<u64> {
    value.as_f64().map(|seconds| (seconds * 1e6).round() as u64)
}

impl Script {
    /// Reads `tests/cases/<name>`.
    pub fn case(name: &str) -> Self {
        Self::parse(&String::from_utf8(case_bytes(name)).expect("scripts are UTF-8"))
    }

    /// Reads a script.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut last = 0;
        let sources: Vec<Source> = lines
            .map(|line| {
                let value: Value = serde_json::from_str(line).expect("each line is JSON");
                match value["loop"].as_u64() {
                    Some(count) => Self::repeated(&value, count),
                    None => {
                        last = micros(&value["t"]).unwrap_or(last);
                        let events = vec![(last, line.to_owned())];
                        Source { events, start: 0, step: 0, count: 1, workers: 1, obeys: false }
                    }
                }
            })
            .collect();
        let mut script = Self { sources, heap: BinaryHeap::new() };
        for index in 0..script.sources.len() {
            script.push(index, 0, 0);
        }
        script
    }

    fn repeated(value: &Value, count: u64) -> Source {
        let mut last = 0;
        let template = value["template"].as_array().expect("a loop has a template");
        let events = template.iter().map(|event| {
            last = micros(&event["t"]).unwrap_or(last);
            (last, event.to_string())
        });
        Source {
            events: events.collect(),
            start: micros(&value["start_s"]).unwrap_or(0),
            step: micros(&value["step_s"]).unwrap_or(0),
            count,
            workers: value["workers"].as_u64().unwrap_or(1) as usize,
            obeys: value["obey_retry_after"] == true,
        }
    }

    /// Lets every loop run at most `most` times.
    #[must_use]
    pub fn shortened(mut self, most: u64) -> Self {
        for source in &mut self.sources {
            source.count = source.count.min(most);
        }
        self
    }

    /// Most workers that a loop asks for.
    pub fn workers(&self) -> usize {
        self.sources.iter().map(|source| source.workers).max().unwrap_or(1)
    }

    fn push(&mut self, source: usize, iteration: u64, event: usize) {
        let s = &self.sources[source];
        if iteration < s.count && event < s.events.len() {
            let at = s.start + s.step * iteration + s.events[event].0;
            self.heap.push(Reverse((at, source, iteration, event)));
        }
    }
}

impl Iterator for Script {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((at, index, iteration, position)) = self.heap.pop()?;
        if position == 0 {
            self.push(index, iteration + 1, 0);
        }
        self.push(index, iteration, position + 1);
        let source = &self.sources[index];
        let text = source.events[position].1.replace("{i}", &iteration.to_string());
        let body = serde_json::from_str(&text).expect("a filled-in template is JSON");
        let worker = iteration as usize % source.workers;
        Some(Event { at, worker, body, obeys: source.obeys, looped: source.count > 1 })
    }
}

/// Body bytes of an event: text, base64 or generated.
pub(super) fn body_of(event: &Value) -> Vec<u8> {
    if let Some(text) = event["body"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(coded) = event["b64"].as_str() {
        return base64::engine::general_purpose::STANDARD.decode(coded).expect("valid base64");
    }
    let text = |name: &str| event["gen"][name].as_str().unwrap_or_default();
    let times = event["gen"]["times"].as_u64().unwrap_or(0) as usize;
    [text("prefix"), &text("unit").repeat(times), text("suffix")].concat().into_bytes()
}
