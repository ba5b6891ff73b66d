//! HTTP callouts; gRPC is answered as by an Envoy without the service.

use wasmtime::{Linker, Result};

use super::{Call, guard, read, read_text, write};
use crate::clock::NANOS_PER_MILLI;
use crate::state::{Callout, VmState};
use crate::status::Status;
use crate::wire::Headers;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_http_call",
        |call: Call<'_>,
         cluster: u32,
         cluster_len: u32,
         headers: u32,
         headers_len: u32,
         body: u32,
         body_len: u32,
         _trailers: u32,
         _trailers_len: u32,
         timeout: u32,
         out: u32| {
            guard(call, "proxy_http_call", |call| {
                let parts = (
                    read_text(call, cluster, cluster_len),
                    read(call, headers, headers_len),
                    read(call, body, body_len),
                );
                let (Some(cluster), Some(raw), Some(body)) = parts else {
                    return Ok(Status::InvalidMemoryAccess);
                };
                let Some(headers) = Headers::decode(&raw) else { return Ok(Status::BadArgument) };
                let named = [":method", ":path", ":authority"].iter().all(|name| headers.count(name) > 0);
                if !named || !call.data().world.borrow().clusters.contains(&cluster) {
                    return Ok(Status::BadArgument);
                }
                let state = call.data_mut();
                let now = state.world.borrow().clock.monotonic();
                let deadline = (timeout > 0).then(|| now + u64::from(timeout) * NANOS_PER_MILLI);
                let (root, id) = (state.effective_root(), state.next_callout);
                state.next_callout += 1;
                state.callouts.push(Callout { root, id, cluster, headers, body, deadline });
                Ok(write(call, out, &id.to_le_bytes()))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_grpc_call",
        |call: Call<'_>,
         _s: u32,
         _sl: u32,
         _n: u32,
         _nl: u32,
         _m: u32,
         _ml: u32,
         _i: u32,
         _il: u32,
         _d: u32,
         _dl: u32,
         _t: u32,
         _o: u32| { guard(call, "proxy_grpc_call", |_| Ok(Status::ParseFailure)) },
    )?;
    linker.func_wrap(
        "env",
        "proxy_grpc_stream",
        |call: Call<'_>,
         _s: u32,
         _sl: u32,
         _n: u32,
         _nl: u32,
         _m: u32,
         _ml: u32,
         _i: u32,
         _il: u32,
         _o: u32| { guard(call, "proxy_grpc_stream", |_| Ok(Status::ParseFailure)) },
    )?;
    linker.func_wrap(
        "env",
        "proxy_grpc_send",
        |call: Call<'_>, _id: u32, _message: u32, _len: u32, _end: u32| {
            guard(call, "proxy_grpc_send", |_| Ok(Status::NotFound))
        },
    )?;
    linker.func_wrap("env", "proxy_grpc_cancel", |call: Call<'_>, _id: u32| {
        guard(call, "proxy_grpc_cancel", |_| Ok(Status::NotFound))
    })?;
    linker.func_wrap("env", "proxy_grpc_close", |call: Call<'_>, _id: u32| {
        guard(call, "proxy_grpc_close", |_| Ok(Status::NotFound))
    })?;
    Ok(())
}
