//! The page itself and the choice between it and JSON.
//!
//! The page is one document without outside resources: it draws its own JSON and asks for it again every two seconds.

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush};

/// Most bytes of the document.
pub const MOST_BYTES: usize = 12 * 1_024;

/// The document, packed by the build script from `page/`.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/status_page.deflate"));

/// The document, with its script and style inlined.
///
/// The script carries no comments, since they would count into the module. What it must keep: names go in as text nodes
/// only, so that nothing in a configuration can become markup; and `patch` changes what differs and leaves the rest, so that
/// focus, scrolling and reading position survive a refresh.
pub fn page() -> Vec<u8> {
    let mut page = vec![0; MOST_BYTES];
    let mut state = InflateState::new_boxed(DataFormat::Raw);
    let result = inflate(&mut state, PACKED, &mut page, MZFlush::Finish);
    page.truncate(result.bytes_written);
    page
}

/// SHA-256 of the inline script, base64, as the policy below names it.
pub const SCRIPT_HASH: &str = "xlPBIm7iPowuYca+1lNE5tlhGTKAb8exlrB50BGUgHY=";
/// SHA-256 of the inline style, base64.
pub const STYLE_HASH: &str = "vJtwZdzEPJ90nlQIUyKySPa9LWWPCiAGHwB73bilIXQ=";

/// Media type of the page.
pub const HTML: &str = "text/html; charset=utf-8";
/// Media type of the snapshot.
pub const JSON: &str = "application/json";

/// What is sent at the status path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The page.
    Html,
    /// The snapshot.
    Json,
}

/// Headers of an answer. The policy lets the page run its own script and fetch from where it came, nothing else.
pub fn headers(form: Form) -> Vec<(&'static str, String)> {
    let content_type = match form {
        Form::Html => HTML,
        Form::Json => JSON,
    };
    vec![
        ("content-type", content_type.to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("vary", "accept".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("x-frame-options", "DENY".to_owned()),
        ("referrer-policy", "no-referrer".to_owned()),
        (
            "content-security-policy",
            format!(
                "default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'sha256-{STYLE_HASH}'; \
                 connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
            ),
        ),
    ]
}

/// True when a request path, query aside, is the status path.
pub fn is_status_path(path: &[u8], status_path: &str) -> bool {
    path.split(|byte| *byte == b'?').next() == Some(status_path.as_bytes())
}

/// What an `accept` header asks for: JSON when it names `application/json` and does not prefer HTML to it.
pub fn form(accept: &[u8]) -> Form {
    let accept = String::from_utf8_lossy(accept).to_ascii_lowercase();
    match (quality(&accept, "application/json"), quality(&accept, "text/html")) {
        (json, html) if json > 0 && json >= html => Form::Json,
        _ => Form::Html,
    }
}

/// Quality given to exactly this media type, thousandths; 0 when it is not named or not wanted.
fn quality(accept: &str, media_type: &str) -> u32 {
    accept
        .split(',')
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            if parts.next() != Some(media_type) {
                return None;
            }
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            Some(weight.map_or(1_000, thousandths))
        })
        .max()
        .unwrap_or(0)
}

/// `0.5` as 500; what is not a quality counts as whole.
fn thousandths(text: &str) -> u32 {
    let Some((whole, fraction)) = text.split_once('.') else {
        return if text == "0" { 0 } else { 1_000 };
    };
    if whole != "0" {
        return 1_000;
    }
    let digits = fraction.chars().chain("000".chars()).take(3);
    digits
        .filter_map(|digit| digit.to_digit(10))
        .fold(0, |sum: u32, digit| sum.saturating_mul(10).saturating_add(digit))
}
