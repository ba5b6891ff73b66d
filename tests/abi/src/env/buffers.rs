//! Body and configuration buffers.

use wasmtime::{Linker, Result};

use super::{Call, give, guard, read, write};
use crate::state::VmState;
use crate::status::Status;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_buffer_bytes",
        |call: Call<'_>, kind: u32, start: u32, max: u32, out: u32, out_len: u32| {
            guard(call, "proxy_get_buffer_bytes", |call| {
                if kind > 8 {
                    return Ok(Status::BadArgument);
                }
                let Some((bytes, size)) = slice(call.data_mut(), kind, start, max) else {
                    return Ok(Status::NotFound);
                };
                if start.checked_add(max).is_none() {
                    return Ok(Status::BadArgument);
                }
                if start as usize > size {
                    call.data().violation(format!("buffer {kind} of {size} bytes is read from {start}"));
                }
                // Envoy leaves pointer and length untouched when there is nothing to copy.
                if bytes.is_empty() { Ok(Status::Ok) } else { give(call, &bytes, out, out_len) }
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_buffer_status",
        |call: Call<'_>, kind: u32, out_len: u32, out_flags: u32| {
            guard(call, "proxy_get_buffer_status", |call| {
                let Some((_, size)) = slice(call.data_mut(), kind, 0, 0) else { return Ok(Status::NotFound) };
                if write(call, out_len, &(size as u32).to_le_bytes()) != Status::Ok {
                    return Ok(Status::InvalidMemoryAccess);
                }
                Ok(write(call, out_flags, &0_u32.to_le_bytes()))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_buffer_bytes",
        |call: Call<'_>, kind: u32, start: u32, len: u32, data: u32, data_len: u32| {
            guard(call, "proxy_set_buffer_bytes", |call| {
                let Some(data) = read(call, data, data_len) else { return Ok(Status::InvalidMemoryAccess) };
                Ok(replace(call.data_mut(), kind, start as usize, len as usize, &data))
            })
        },
    )?;
    Ok(())
}

/// The wanted bytes and the size of the whole buffer.
fn slice(state: &mut VmState, kind: u32, start: u32, max: u32) -> Option<(Vec<u8>, usize)> {
    let id = state.effective;
    let root = state.effective_root();
    let buffer: &[u8] = match kind {
        0 => state.streams.get_mut(&id)?.request.readable_body()?,
        1 => state.streams.get_mut(&id)?.response.readable_body()?,
        4 => &state.answer.as_ref()?.body,
        6 => &[],
        7 => &state.roots.get(&root)?.configuration,
        _ => return None,
    };
    let from = (start as usize).min(buffer.len());
    let to = from.saturating_add(max as usize).min(buffer.len());
    Some((buffer[from..to].to_vec(), buffer.len()))
}

/// Envoy only replaces at the front or appends at the end.
fn replace(state: &mut VmState, kind: u32, start: usize, len: usize, data: &[u8]) -> Status {
    let id = state.effective;
    let Some(stream) = state.streams.get_mut(&id) else { return Status::NotFound };
    let buffer = match kind {
        0 => stream.request.readable_body(),
        1 => stream.response.readable_body(),
        _ => return Status::BadArgument,
    };
    let Some(buffer) = buffer else { return Status::NotFound };
    if start == 0 {
        buffer.splice(..len.min(buffer.len()), data.iter().copied());
    } else if start >= buffer.len() {
        buffer.extend(data);
    } else {
        return Status::BadArgument;
    }
    Status::Ok
}
