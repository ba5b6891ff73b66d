//! Files of `tests/cases/`.

use std::path::PathBuf;

use crate::module::workspace;
use crate::wire::Headers;

/// Path of a case file.
pub fn case_path(name: &str) -> PathBuf {
    workspace().join("tests/cases").join(name)
}

/// A case file as it is.
pub fn case_bytes(name: &str) -> Vec<u8> {
    let path = case_path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// An HTTP message from a file.
#[derive(Clone, Debug)]
pub struct HttpFile {
    /// The request or status line.
    pub start: String,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl HttpFile {
    /// Splits a message at its first empty line; bytes are kept as they are.
    pub fn parse(bytes: &[u8]) -> Self {
        let head_end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(bytes.len());
        let body = bytes.get(head_end + 4..).unwrap_or_default().to_vec();
        let mut lines = bytes[..head_end].split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        let start = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let mut headers = Headers::default();
        for line in lines {
            if let Some(colon) = line.iter().position(|b| *b == b':') {
                headers.add(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
        Self { start, headers, body }
    }

    /// Headers of a request as Envoy shows them: pseudo-headers first, `host` as `:authority`.
    pub fn request(&self) -> Headers {
        let mut words = self.start.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Headers::from_text(&[(":method", method), (":path", path)]);
        for (name, value) in &self.headers.0 {
            headers.add(if name == b"host" { b":authority" } else { name }, value);
        }
        headers
    }

    /// Headers of a response as Envoy shows them.
    pub fn response(&self) -> Headers {
        let status = self.start.split(' ').nth(1).unwrap_or_default();
        let mut headers = Headers::from_text(&[(":status", status)]);
        headers.0.extend(self.headers.0.iter().cloned());
        headers
    }
}

/// An HTTP message from `tests/cases/`.
pub fn case_http(name: &str) -> HttpFile {
    HttpFile::parse(&case_bytes(name))
}

/// Replaces each `<N x C>` by C repeated N times.
pub fn expand_repeats(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        let tail = &rest[open..];
        let parsed = tail.find('>').and_then(|close| {
            let (count, unit) = tail[1..close].split_once(" x ")?;
            Some((count.trim().parse::<usize>().ok()?, unit.to_owned(), close))
        });
        match parsed {
            Some((count, unit, close)) => {
                out.push_str(&unit.repeat(count));
                rest = &tail[close + 1..];
            }
            None => {
                out.push('<');
                rest = &tail[1..];
            }
        }
    }
    out.push_str(rest);
    out
}
