#include "pools.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstring>

#include "daos.h"
#include "errors.h"
#include "events.h"
#include "global.h"
#include "properties.h"
#include "ranks.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/uri.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/uuid.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::daos {
namespace {

using PoolPointer = std::shared_ptr<Pool>;

std::atomic<uint32_t> initialized = 0;
constexpr int rebuild_not_started = 1;  // DRS_NOT_STARTED

// A pool directory of this machine can be examined without opening the pool.
Result<> check_directory(const ContainerUris& where, Report& report) {
    Report unused;
    const auto uri = api::Uri::parse(where.uri_of("container"), unused);
    if (!uri || uri->dir.empty()) return {};
    ROS2S_TRY_ASSIGN(const auto pool, pool::read_pool_settings(uri->dir, report));
    return api::check_pool_name(*uri, pool.config.pool, report);
}

Task<Result<object::PoolSpace>> space_of(object::ObjectStore& store) {
    const Call call;
    co_return co_await store.space(call, {});
}

void fill_space(uint64_t total, uint64_t free, daos_pool_space& out) {
    out.ps_ntargets = 1;
    out.ps_space.s_total[DAOS_MEDIA_NVME] = total;
    for (auto* each : {out.ps_space.s_free, out.ps_free_min, out.ps_free_max, out.ps_free_mean}) {
        each[DAOS_MEDIA_NVME] = free;
    }
}

int fill(Pool& pool, daos_pool_info_t& info) {
    const uint64_t wanted = info.pi_bits;
    info = {};
    uuid_of(pool.label, info.pi_uuid);
    info.pi_ntargets = 1;
    info.pi_nnodes = 1;
    info.pi_map_ver = 1;
    info.pi_bits = wanted;
    info.pi_rebuild_st.rs_state = rebuild_not_started;
    if ((wanted & DPI_SPACE) == 0) return 0;
    for (const auto& container : Handles::table().all<Container>()) {
        struct statvfs space{};
        if (container->pool.get() != &pool || ros2s_statfs(container->fs, &space) != 0) continue;
        fill_space(uint64_t{space.f_blocks} * space.f_frsize,
                   uint64_t{space.f_bfree} * space.f_frsize, info.pi_space);
        return 0;
    }
    api::c::Instance* instance = nullptr;
    if (const int rc = attach(pool, instance); rc != 0) return rc;
    const auto space = instance->run([&] { return space_of(*instance->deployment().store()); });
    if (!space) return der_of(space.error());
    fill_space(space->total_bytes, space->free_bytes, info.pi_space);
    return 0;
}

// Rank 0 exists. No rank is disabled or dead.
d_rank_list_t* ranks_for(const daos_pool_info_t* info) {
    const uint64_t wanted = info == nullptr ? 0 : info->pi_bits;
    const bool asks_bad = (wanted & (DPI_ENGINES_DISABLED | DPI_ENGINES_DEAD)) != 0 &&
                          (wanted & DPI_ENGINES_ENABLED) == 0;
    return make_rank_list(asks_bad ? 0 : 1);
}

}  // namespace

void uuid_of(std::string_view label, uuid_t& out) {
    if (const auto parsed = Uuid::parse(label)) {
        std::memcpy(&out, parsed->bytes.data(), sizeof out);
        return;
    }
    uint32_t crc = crc32c(std::as_bytes(std::span(label)));
    for (size_t at = 0; at < sizeof out; at += sizeof crc) {
        std::memcpy(reinterpret_cast<unsigned char*>(&out) + at, &crc, sizeof crc);
        crc = crc32c_extend(crc, std::as_bytes(std::span(label)));
    }
}

void say(std::string_view kind, std::string_view label, std::string_view sentence) {
    say_once(fmt::format("{} '{}': {}", kind, label, sentence));
}

Result<api::c::Instance*> Pool::attach(Report& report) {
    const std::lock_guard locked(lock);
    if (!attachment) {
        ROS2S_TRY_ASSIGN(auto uri, api::Uri::parse(where.uri_of("container"), report));
        uri.container.clear();
        ROS2S_TRY_ASSIGN(attachment, api::c::attach(uri, "", report));
    }
    return attachment->instance.get();
}

void Pool::detach() {
    const std::lock_guard locked(lock);
    if (attachment) api::c::detach(std::move(*attachment));
    attachment.reset();
}

int attach(Pool& pool, api::c::Instance*& instance) {
    Report report;
    const auto attached = pool.attach(report);
    if (!attached) {
        say("pool", pool.label, report.text());
        return der_of(attached.error());
    }
    instance = *attached;
    return 0;
}

int connect(const char* label, unsigned flags, daos_handle_t& handle) {
    if (initialized == 0) return -DER_UNINIT;
    if (label == nullptr) return -DER_INVAL;
    Report report;
    auto where = find_pool(label, report);
    if (!where) {
        say_once(report.text());
        return der_of(where.error());
    }
    if (const auto checked = check_directory(*where, report); !checked) {
        say("pool", label, report.text());
        return der_of(checked.error());
    }
    handle = Handles::table().add(std::make_shared<Pool>(label, std::move(*where), flags));
    return 0;
}

}  // namespace ros2s::daos

using namespace ros2s;
using namespace ros2s::daos;

int daos_init(void) {
    ++initialized;
    return 0;
}

int daos_fini(void) {
    uint32_t count = initialized;
    while (count > 0 && !initialized.compare_exchange_weak(count, count - 1)) {
    }
    return count == 0 ? -DER_UNINIT : 0;
}

int daos_version_get(int* major, int* minor, int* fix) {
    if (major == nullptr || minor == nullptr || fix == nullptr) return -DER_INVAL;
    *major = DAOS_API_VERSION_MAJOR;
    *minor = DAOS_API_VERSION_MINOR;
    *fix = DAOS_API_VERSION_FIX;
    return 0;
}

int daos_pool_connect(const char* pool, const char*, unsigned int flags, daos_handle_t* poh,
                      daos_pool_info_t* info, daos_event_t* ev) {
    if (poh == nullptr) return finish_call(ev, -DER_INVAL);
    const int rc = connect(pool, flags, *poh);
    if (rc == 0 && info != nullptr) {
        info->pi_bits = 0;
        fill(*Handles::table().find<Pool>(*poh), *info);
    }
    return finish_call(ev, rc);
}

int daos_pool_disconnect(daos_handle_t poh, daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer& pool) {
        if (pool->containers > 0) return -DER_BUSY;
        Handles::table().remove<Pool>(poh);
        pool->detach();
        return 0;
    });
}

int daos_pool_query(daos_handle_t poh, d_rank_list_t** ranks, daos_pool_info_t* info,
                    daos_prop_t* pool_prop, daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer& pool) {
        if (ranks != nullptr) {
            *ranks = ranks_for(info);
            if (*ranks == nullptr) return -DER_NOMEM;
        }
        const int rc = info == nullptr ? 0 : fill(*pool, *info);
        return rc != 0 || pool_prop == nullptr ? rc : fill_properties(*pool, *pool_prop);
    });
}

int daos_pool_query_target(daos_handle_t poh, uint32_t tgt, d_rank_t rank, daos_target_info_t* info,
                           daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer& pool) {
        if (info == nullptr) return -DER_INVAL;
        if (tgt != 0 || rank != 0) return -DER_NONEXIST;
        daos_pool_info_t whole{.pi_bits = DPI_SPACE};
        const int rc = fill(*pool, whole);
        *info = {.ta_type = DAOS_TP_SSD,
                 .ta_state = DAOS_TS_UP_IN,
                 .ta_perf = 0,
                 .ta_space = whole.pi_space.ps_space};
        return rc;
    });
}

int daos_pool_local2global(daos_handle_t poh, d_iov_t* glob) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return -DER_NO_HDL;
    return write_global(glob, {pool->label, std::to_string(pool->flags)});
}

int daos_pool_global2local(d_iov_t glob, daos_handle_t* poh) {
    const auto parts = read_global(glob, 2);
    if (poh == nullptr || parts.empty()) return -DER_INVAL;
    return connect(parts[0].c_str(), static_cast<unsigned>(parse_number(parts[1])), *poh);
}
