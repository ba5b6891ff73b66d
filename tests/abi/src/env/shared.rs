//! Shared data and shared queues.

use wasmtime::{Linker, Result};

use super::{Call, give, guard, read, write};
use crate::state::VmState;
use crate::status::Status;

pub(super) fn link(linker: &mut Linker<VmState>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_shared_data",
        |call: Call<'_>, key: u32, key_len: u32, out: u32, out_len: u32, out_cas: u32| {
            guard(call, "proxy_get_shared_data", |call| {
                let Some(key) = read(call, key, key_len) else { return Ok(Status::InvalidMemoryAccess) };
                let found =
                    call.data().world.borrow().data.get(&key).map(|(value, cas)| (value.to_vec(), cas));
                let Some((value, cas)) = found else { return Ok(Status::NotFound) };
                let status = give(call, &value, out, out_len)?;
                Ok(if status == Status::Ok { write(call, out_cas, &cas.to_le_bytes()) } else { status })
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_shared_data",
        |call: Call<'_>, key: u32, key_len: u32, value: u32, value_len: u32, cas: u32| {
            guard(call, "proxy_set_shared_data", |call| {
                let pair = (read(call, key, key_len), read(call, value, value_len));
                let (Some(key), Some(value)) = pair else { return Ok(Status::InvalidMemoryAccess) };
                Ok(call.data().world.borrow_mut().data.set(&key, &value, cas))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_register_shared_queue",
        |call: Call<'_>, name: u32, name_len: u32, out: u32| {
            guard(call, "proxy_register_shared_queue", |call| {
                let Some(name) = read(call, name, name_len) else { return Ok(Status::InvalidMemoryAccess) };
                let owner = (call.data().worker, call.data().effective_root());
                let id = call.data().world.borrow_mut().queues.register(&name, owner);
                Ok(write(call, out, &id.to_le_bytes()))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_resolve_shared_queue",
        |call: Call<'_>, _vm: u32, _vm_len: u32, name: u32, name_len: u32, out: u32| {
            guard(call, "proxy_resolve_shared_queue", |call| {
                let Some(name) = read(call, name, name_len) else { return Ok(Status::InvalidMemoryAccess) };
                let found = call.data().world.borrow().queues.resolve(&name);
                let Some(id) = found else { return Ok(Status::NotFound) };
                Ok(write(call, out, &id.to_le_bytes()))
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_enqueue_shared_queue",
        |call: Call<'_>, id: u32, value: u32, value_len: u32| {
            guard(call, "proxy_enqueue_shared_queue", |call| {
                let Some(value) = read(call, value, value_len) else {
                    return Ok(Status::InvalidMemoryAccess);
                };
                let mut world = call.data().world.borrow_mut();
                let Some((worker, root)) = world.queues.push(id, &value) else { return Ok(Status::NotFound) };
                world.notices.push((worker, root, id));
                Ok(Status::Ok)
            })
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_dequeue_shared_queue",
        |call: Call<'_>, id: u32, out: u32, out_len: u32| {
            guard(call, "proxy_dequeue_shared_queue", |call| {
                let item = call.data().world.borrow_mut().queues.pop(id);
                match item {
                    Ok(item) => give(call, &item, out, out_len),
                    Err(status) => Ok(status),
                }
            })
        },
    )?;
    Ok(())
}
