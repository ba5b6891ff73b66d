//! Webdis, the HTTP front of the store: a command is the body of a POST, its parts separated by slashes.

use core::fmt::Write as _;

use super::{SCRIPT_HASH, script};

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The script's answer: one line for each operation, and one of the pool at a glance.
    Lines(Vec<String>),
    /// The store does not know the script: send it.
    NoScript,
    /// The store or its front refused, for example because memory is used up or the password is wrong.
    Refused,
    /// What is under the pool's keys is not ours, of a newer version, or was damaged and starts anew.
    Foreign,
    /// Not an answer of Webdis.
    Garbled,
}

/// The keys of a pool begin with this. All of a pool's keys share a hash slot.
pub fn key(prefix: &str, pool: &str) -> String {
    let mut out = String::new();
    escape(&mut out, prefix);
    out.push_str(":{");
    escape(&mut out, pool);
    out.push('}');
    out
}

/// A command that runs the script, by name or, with `load`, with its text.
pub fn command(load: bool, key: &str, policy: &str, operations: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(512);
    if load {
        out.push_str("EVAL/");
        escape(&mut out, &script());
    } else {
        out.push_str("EVALSHA/");
        out.push_str(SCRIPT_HASH);
    }
    let _ = write!(out, "/{}/{key}:s/{key}:f/{key}:b", operations.len().saturating_add(3));
    for (marker, _) in operations {
        let _ = write!(out, "/{key}:c:{marker}");
    }
    let _ = write!(out, "/-/{policy}");
    for (_, operation) in operations {
        out.push('/');
        out.push_str(operation);
    }
    out
}

/// Reads the body of an answer with this HTTP status.
pub fn reply(status: &[u8], body: &[u8]) -> Reply {
    if status != b"200" {
        return Reply::Refused;
    }
    let Ok(text) = core::str::from_utf8(body) else { return Reply::Garbled };
    let Some((_, value)) = text.trim_ascii().split_once(':') else { return Reply::Garbled };
    if value.starts_with("[false") {
        let error = value.strip_prefix("[false,\"").unwrap_or_default();
        return if error.starts_with("NOSCRIPT") {
            Reply::NoScript
        } else if error.starts_with("WRONGTYPE")
            || error.starts_with("ERR Error running script") && has(error, b"WRONGTYPE")
        {
            Reply::Foreign
        } else {
            Reply::Refused
        };
    }
    let Some(lines) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix("\"}")) else {
        return Reply::Garbled;
    };
    match lines {
        "corrupt" | "newer" => Reply::Foreign,
        _ => Reply::Lines(lines.split(';').map(str::to_owned).collect()),
    }
}

fn has(text: &str, part: &[u8]) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window == part)
}

fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        for (status, body, wanted) in [
            ("200", r#"{"EVALSHA":"A,1;T,2"}"#, Reply::Lines(vec!["A,1".to_owned(), "T,2".to_owned()])),
            (
                "200",
                r#"{"EVALSHA":[false,"NOSCRIPT No matching script. Please use EVAL."]}"#,
                Reply::NoScript,
            ),
            ("200", r#"{"EVALSHA":[false,"OOM command not allowed"]}"#, Reply::Refused),
            ("200", r#"{"EVAL":[false,"WRONGTYPE Operation against a key"]}"#, Reply::Foreign),
            ("200", r#"{"EVALSHA":"newer"}"#, Reply::Foreign),
            ("403", "", Reply::Refused),
            ("200", "<html>", Reply::Garbled),
            ("200", r#"{"EVALSHA":7}"#, Reply::Garbled),
        ] {
            assert_eq!(reply(status.as_bytes(), body.as_bytes()), wanted, "{body}");
        }
    }

    #[test]
    fn a_command_keeps_what_belongs_together_in_one_slot() {
        let key = key("bp", "m-chat/4.1");
        let command = command(false, &key, "1,", &[("ab", "a1,2,")]);
        let expected = format!("EVALSHA/{SCRIPT_HASH}/4/{key}:s/{key}:f/{key}:b/{key}:c:ab/-/1,/a1,2,");
        assert_eq!(command, expected);
        assert_eq!(key, "bp:{m-chat%2F4%2E1}");
    }
}
