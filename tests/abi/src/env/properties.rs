//! Attributes of a call, and filter state.

use wasmtime::{Linker, Result};

use super::{Call, give, guard, read};
use crate::state::VmState;
use crate::status::Status;
use crate::stream::Stream;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_property",
        |call: Call<'_>, path: u32, path_len: u32, out: u32, out_len: u32| {
            guard(call, "proxy_get_property", |call| {
                let Some(path) = read(call, path, path_len) else { return Ok(Status::InvalidMemoryAccess) };
                match lookup(call.data(), &path) {
                    None => Ok(Status::NotFound),
                    Some(value) => give(call, &value, out, out_len),
                }
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_property",
        |call: Call<'_>, path: u32, path_len: u32, value: u32, value_len: u32| {
            guard(call, "proxy_set_property", |call| {
                let pair = (read(call, path, path_len), read(call, value, value_len));
                let (Some(path), Some(value)) = pair else { return Ok(Status::InvalidMemoryAccess) };
                let state = call.data_mut();
                let id = state.effective;
                let Some(stream) = state.streams.get_mut(&id) else { return Ok(Status::NotFound) };
                stream.filter_state.insert(format!("wasm.{}", String::from_utf8_lossy(&path)), value);
                Ok(Status::Ok)
            })
        },
    )?;
    Ok(())
}

fn lookup(state: &VmState, path: &[u8]) -> Option<Vec<u8>> {
    if let Some(value) = state.world.borrow().properties.get(path) {
        return Some(value.clone());
    }
    let text = String::from_utf8_lossy(path);
    match &*text {
        "plugin_name" => return Some(b"backpressure".to_vec()),
        "plugin_root_id" => return Some(Vec::new()),
        "plugin_vm_id" => return Some(state.vm_id.as_bytes().to_vec()),
        _ => {}
    }
    let stream = state.streams.get(&state.effective)?;
    if let Some(value) = stream.properties.get(path) {
        return Some(value.clone());
    }
    attribute(stream, &text)
}

fn attribute(stream: &Stream, path: &str) -> Option<Vec<u8>> {
    let header = |name: &str| stream.received.get(name.as_bytes()).map(<[u8]>::to_vec);
    if let Some(name) = path.strip_prefix("request\0headers\0") {
        return header(name);
    }
    if let Some(name) = path.strip_prefix("response\0headers\0") {
        return stream.response.headers.as_ref()?.get(name.as_bytes()).map(<[u8]>::to_vec);
    }
    if let Some(name) = path.strip_prefix("filter_state\0") {
        return stream.filter_state.get(name).cloned();
    }
    match path {
        "request\0method" => header(":method"),
        "request\0path" => header(":path"),
        "request\0url_path" => {
            header(":path").map(|p| p.split(|b| *b == b'?').next().unwrap_or_default().to_vec())
        }
        "request\0host" => header(":authority"),
        "request\0scheme" => header(":scheme"),
        "request\0id" => header("x-request-id"),
        "request\0size" => Some((stream.request.received.len() as i64).to_le_bytes().to_vec()),
        "response\0code" => {
            let code: i64 = stream.response.headers.as_ref()?.text(":status")?.parse().ok()?;
            Some(code.to_le_bytes().to_vec())
        }
        "response\0code_details" if stream.response.headers.is_some() || !stream.details.is_empty() => {
            Some(stream.details.as_bytes().to_vec())
        }
        "response\0flags" => Some(stream.flags.to_le_bytes().to_vec()),
        "upstream\0address" if stream.upstream_reached => Some(b"10.0.0.1:443".to_vec()),
        "upstream\0request_attempt_count" if stream.upstream_reached => Some(1_u64.to_le_bytes().to_vec()),
        _ => None,
    }
}
