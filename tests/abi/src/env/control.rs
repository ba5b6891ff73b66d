//! Log, time, ticks, effective context, resume, close and local replies.

use wasmtime::{Linker, Result};

use super::{Call, guard, read, read_text, write};
use crate::clock::NANOS_PER_MILLI;
use crate::state::{Deferred, VmState};
use crate::status::Status;
use crate::stream::LocalReply;
use crate::wire::Headers;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap("env", "proxy_log", |call: Call<'_>, level: u32, at: u32, len: u32| {
        guard(call, "proxy_log", |call| {
            let Some(line) = read_text(call, at, len) else { return Ok(Status::InvalidMemoryAccess) };
            if level > 5 {
                return Ok(Status::BadArgument);
            }
            call.data().world.borrow_mut().logs.push((level, line));
            Ok(Status::Ok)
        })
    })?;
    linker.func_wrap("env", "proxy_get_log_level", |call: Call<'_>, at: u32| {
        guard(call, "proxy_get_log_level", |call| Ok(write(call, at, &2_u32.to_le_bytes())))
    })?;
    linker.func_wrap("env", "proxy_get_status", |call: Call<'_>, _code: u32, _at: u32, _len: u32| {
        guard(call, "proxy_get_status", |_| Ok(Status::Unimplemented))
    })?;
    linker.func_wrap("env", "proxy_get_current_time_nanoseconds", |call: Call<'_>, at: u32| {
        guard(call, "proxy_get_current_time_nanoseconds", |call| {
            let now = call.data().world.borrow().clock.wall();
            Ok(write(call, at, &now.to_le_bytes()))
        })
    })?;
    linker.func_wrap("env", "proxy_set_tick_period_milliseconds", |call: Call<'_>, millis: u32| {
        guard(call, "proxy_set_tick_period_milliseconds", |call| Ok(set_tick(call, millis)))
    })?;
    linker.func_wrap("env", "proxy_set_effective_context", |call: Call<'_>, id: u32| {
        guard(call, "proxy_set_effective_context", |call| {
            let state = call.data_mut();
            if !state.roots.contains_key(&id) && !state.streams.contains_key(&id) {
                return Ok(Status::BadArgument);
            }
            state.effective = id;
            Ok(Status::Ok)
        })
    })?;
    linker.func_wrap("env", "proxy_done", |call: Call<'_>| guard(call, "proxy_done", |_| Ok(Status::Ok)))?;
    linker.func_wrap("env", "proxy_continue_stream", |call: Call<'_>, kind: u32| {
        guard(call, "proxy_continue_stream", |call| Ok(resume(call, kind)))
    })?;
    linker.func_wrap("env", "proxy_close_stream", |call: Call<'_>, kind: u32| {
        guard(call, "proxy_close_stream", |call| {
            if kind > 3 {
                return Ok(Status::BadArgument);
            }
            let state = call.data_mut();
            let stream = state.effective;
            if state.streams.contains_key(&stream) {
                state.deferred.push_back(Deferred::Reset { stream });
            }
            Ok(Status::Ok)
        })
    })?;
    linker.func_wrap(
        "env",
        "proxy_send_local_response",
        |call: Call<'_>,
         status: u32,
         details: u32,
         details_len: u32,
         body: u32,
         body_len: u32,
         headers: u32,
         headers_len: u32,
         _grpc: i32| {
            guard(call, "proxy_send_local_response", |call| {
                let parts = (
                    read_text(call, details, details_len),
                    read(call, body, body_len),
                    read(call, headers, headers_len),
                );
                let (Some(details), Some(body), Some(raw)) = parts else {
                    return Ok(Status::InvalidMemoryAccess);
                };
                let Some(headers) = Headers::decode(&raw) else { return Ok(Status::BadArgument) };
                Ok(reply(call, LocalReply { status, headers, body, details, flags: 0 }))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_call_foreign_function",
        |call: Call<'_>, _name: u32, _name_len: u32, _arg: u32, _arg_len: u32, _out: u32, _out_len: u32| {
            guard(call, "proxy_call_foreign_function", |_| Ok(Status::NotFound))
        },
    )?;
    Ok(())
}

fn set_tick(call: &mut Call<'_>, millis: u32) -> Status {
    let state = call.data_mut();
    let root = state.effective_root();
    let now = state.world.borrow().clock.monotonic();
    let Some(root) = state.roots.get_mut(&root) else { return Status::BadArgument };
    root.tick_millis = millis;
    root.next_tick = (millis > 0).then(|| now + u64::from(millis) * NANOS_PER_MILLI);
    Status::Ok
}

fn resume(call: &mut Call<'_>, kind: u32) -> Status {
    if kind > 3 {
        return Status::BadArgument;
    }
    let state = call.data_mut();
    let id = state.effective;
    let Some(stream) = state.streams.get_mut(&id) else {
        state.violation(format!("resume of {id}, which is no stream"));
        return Status::Ok;
    };
    if kind > 1 {
        return Status::Ok;
    }
    // Envoy forgets the request maps at the moment of the call, not when the stream moves on.
    stream.request.headers_readable = false;
    stream.request.trailers_readable = false;
    let (in_callback, replied) = (stream.in_callback, stream.reply_queued);
    if in_callback {
        state.violation(format!("stream {id} is resumed from its own callback"));
    }
    if replied {
        state.violation(format!("stream {id} is resumed after a local reply was queued"));
    }
    state.deferred.push_back(Deferred::Resume { stream: id, response: kind == 1 });
    Status::Ok
}

fn reply(call: &mut Call<'_>, reply: LocalReply) -> Status {
    let state = call.data_mut();
    let id = state.effective;
    state.stop_iteration = true;
    let resumed =
        state.deferred.iter().any(|d| matches!(d, Deferred::Resume { stream, .. } if *stream == id));
    let Some(stream) = state.streams.get_mut(&id) else {
        state.violation(format!("local reply for {id}, which is no stream"));
        return Status::Ok;
    };
    let twice = stream.reply_queued || stream.replied_by.is_some();
    stream.reply_queued = true;
    if twice {
        state.violation(format!("second local reply for stream {id}"));
        return Status::Ok;
    }
    if resumed {
        state.violation(format!("local reply for stream {id} after it was resumed"));
    }
    state.deferred.push_back(Deferred::Reply { stream: id, reply });
    Status::Ok
}
