//! Stats: each definition is a new number, the stat behind it is shared by name.

use wasmtime::{Linker, Result};

use super::{Call, guard, read_text, write};
use crate::state::VmState;
use crate::stats::Kind;
use crate::status::Status;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_define_metric",
        |call: Call<'_>, kind: u32, name: u32, name_len: u32, out: u32| {
            guard(call, "proxy_define_metric", |call| {
                let Some(name) = read_text(call, name, name_len) else {
                    return Ok(Status::InvalidMemoryAccess);
                };
                let Some(kind) = Kind::from_code(kind) else { return Ok(Status::BadArgument) };
                let state = call.data_mut();
                state.world.borrow_mut().stats.define(kind, &name);
                state.next_metric += 4;
                let id = state.next_metric + kind as u32;
                state.metrics.insert(id, (kind, name));
                Ok(write(call, out, &id.to_le_bytes()))
            })
        },
    )?;
    linker.func_wrap("env", "proxy_increment_metric", |call: Call<'_>, id: u32, delta: i64| {
        guard(call, "proxy_increment_metric", |call| {
            let Some((kind, name)) = call.data().metrics.get(&id).cloned() else {
                return Ok(Status::NotFound);
            };
            let allowed = match kind {
                Kind::Counter => delta > 0,
                Kind::Gauge => true,
                Kind::Histogram => false,
            };
            if !allowed {
                return Ok(Status::BadArgument);
            }
            call.data().world.borrow_mut().stats.add(kind, &name, delta);
            Ok(Status::Ok)
        })
    })?;
    linker.func_wrap("env", "proxy_record_metric", |call: Call<'_>, id: u32, value: u64| {
        guard(call, "proxy_record_metric", |call| {
            let Some((kind, name)) = call.data().metrics.get(&id).cloned() else {
                return Ok(Status::NotFound);
            };
            call.data().world.borrow_mut().stats.record(kind, &name, value);
            Ok(Status::Ok)
        })
    })?;
    linker.func_wrap("env", "proxy_get_metric", |call: Call<'_>, id: u32, out: u32| {
        guard(call, "proxy_get_metric", |call| {
            let Some((kind, name)) = call.data().metrics.get(&id).cloned() else {
                return Ok(Status::NotFound);
            };
            if kind == Kind::Histogram {
                return Ok(Status::BadArgument);
            }
            let value = call.data().world.borrow().stats.get(kind, &name);
            Ok(write(call, out, &value.to_le_bytes()))
        })
    })?;
    Ok(())
}
