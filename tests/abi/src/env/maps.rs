//! Header and trailer maps, readable only while Envoy still holds them for the filter.

use wasmtime::{Linker, Result};

use super::{Call, give, guard, read, write};
use crate::state::VmState;
use crate::status::Status;
use crate::wire::Headers;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_header_map_value",
        |call: Call<'_>, map: u32, key: u32, key_len: u32, out: u32, out_len: u32| {
            guard(call, "proxy_get_header_map_value", |call| {
                let Some(key) = read(call, key, key_len) else { return Ok(Status::InvalidMemoryAccess) };
                let log_phase = call.data().log_phase;
                let value = match view(call.data_mut(), map) {
                    None if log_phase => return Ok(Status::NotFound),
                    None => return Ok(Status::BadArgument),
                    Some(headers) => headers.get(&key).map(<[u8]>::to_vec),
                };
                match value {
                    None => Ok(Status::NotFound),
                    Some(value) => give(call, &value, out, out_len),
                }
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_header_map_pairs",
        |call: Call<'_>, map: u32, out: u32, out_len: u32| {
            guard(call, "proxy_get_header_map_pairs", |call| {
                if map > 7 {
                    return Ok(Status::BadArgument);
                }
                let bytes =
                    view(call.data_mut(), map).map_or_else(|| Headers::default().encode(), |m| m.encode());
                give(call, &bytes, out, out_len)
            })
        },
    )?;
    linker.func_wrap("env", "proxy_get_header_map_size", |call: Call<'_>, map: u32, out: u32| {
        guard(call, "proxy_get_header_map_size", |call| {
            let Some(size) = view(call.data_mut(), map).map(|headers| headers.encode().len()) else {
                return Ok(Status::BadArgument);
            };
            Ok(write(call, out, &(size as u32).to_le_bytes()))
        })
    })?;
    linker.func_wrap(
        "env",
        "proxy_set_header_map_pairs",
        |call: Call<'_>, map: u32, pairs: u32, pairs_len: u32| {
            guard(call, "proxy_set_header_map_pairs", |call| {
                let Some(raw) = read(call, pairs, pairs_len) else { return Ok(Status::InvalidMemoryAccess) };
                let Some(headers) = Headers::decode(&raw) else { return Ok(Status::BadArgument) };
                edit(call, map, |target| *target = headers)
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_remove_header_map_value",
        |call: Call<'_>, map: u32, key: u32, key_len: u32| {
            guard(call, "proxy_remove_header_map_value", |call| {
                let Some(key) = read(call, key, key_len) else { return Ok(Status::InvalidMemoryAccess) };
                edit(call, map, |headers| headers.remove(&key))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_replace_header_map_value",
        |call: Call<'_>, map: u32, key: u32, key_len: u32, value: u32, value_len: u32| {
            guard(call, "proxy_replace_header_map_value", |call| {
                let pair = (read(call, key, key_len), read(call, value, value_len));
                let (Some(key), Some(value)) = pair else { return Ok(Status::InvalidMemoryAccess) };
                edit(call, map, |headers| headers.replace(&key, &value))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_add_header_map_value",
        |call: Call<'_>, map: u32, key: u32, key_len: u32, value: u32, value_len: u32| {
            guard(call, "proxy_add_header_map_value", |call| {
                let pair = (read(call, key, key_len), read(call, value, value_len));
                let (Some(key), Some(value)) = pair else { return Ok(Status::InvalidMemoryAccess) };
                edit(call, map, |headers| headers.add(&key, &value))
            })
        },
    )?;
    Ok(())
}

/// The map a number stands for, if Envoy would show it to the effective context now.
fn view(state: &mut VmState, map: u32) -> Option<&mut Headers> {
    if map == 6 {
        return state.answer.as_mut().map(|answer| &mut answer.headers);
    }
    let log_phase = state.log_phase;
    let id = state.effective;
    let stream = state.streams.get_mut(&id)?;
    match map {
        0 if log_phase || stream.request.headers_readable => stream.request.headers.as_mut(),
        1 if log_phase || stream.request.trailers_readable => stream.request.trailers.as_mut(),
        2 if log_phase || stream.response.headers_readable => stream.response.headers.as_mut(),
        3 if log_phase || stream.response.trailers_readable => stream.response.trailers.as_mut(),
        _ => None,
    }
}

fn edit(call: &mut Call<'_>, map: u32, change: impl FnOnce(&mut Headers)) -> Result<Status> {
    if call.data().log_phase {
        return Ok(Status::BadArgument);
    }
    let Some(headers) = view(call.data_mut(), map) else { return Ok(Status::BadArgument) };
    change(headers);
    Ok(Status::Ok)
}
