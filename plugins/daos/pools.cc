#include "pools.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <array>
#include <cstring>

#include "daos.h"
#include "daos_mgmt.h"
#include "errors.h"
#include "events.h"
#include "global.h"
#include "gurt/common.h"
#include "properties.h"
#include "ros2s/api/c/owner_of_new.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/uri.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/uuid.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/pool_directory.h"
#include "store_access.h"

namespace ros2s::daos {
namespace {

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

void say(std::string_view kind, std::string_view label, std::string_view sentence) {
    say_once(fmt::format("{} '{}': {}", kind, label, sentence));
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
    Report report;
    const auto instance = pool.attach(report);
    if (!instance) {
        say("pool", pool.label, report.text());
        return der_of(instance.error());
    }
    const auto space =
        (*instance)->run([&] { return space_of(*(*instance)->deployment().store()); });
    if (!space) return der_of(space.error());
    fill_space(space->total_bytes, space->free_bytes, info.pi_space);
    return 0;
}

Task<Result<>> create(api::c::Instance& instance, std::string label, Report& report) {
    const Call call;
    const auto made =
        co_await fs::create_container(call, instance.reactor(), *instance.deployment().store(),
                                      {.label = std::move(label)}, api::c::owner_of_new(), report);
    co_return made ? Result<>() : fail(made.error());
}

Task<Result<std::vector<object::ContainerRecord>>> list(object::ObjectStore& store) {
    const Call call;
    co_return co_await store.list_containers(call);
}

Result<std::vector<object::ContainerRecord>> containers_of(Pool& pool, Report& report) {
    ROS2S_TRY_ASSIGN(auto* const instance, pool.attach(report));
    return instance->run([&] { return list(*instance->deployment().store()); });
}

// The container's label. Programs also name a container by its UUID. If two labels lead to one
// UUID, the UUID names neither. Returns 0 or -DER_.
int label_of(Pool& pool, std::string_view text, std::string& label) {
    label = text;
    const auto wanted = Uuid::parse(text);
    if (!wanted) return 0;
    Report unused;
    const auto listed = containers_of(pool, unused);
    // Behind a DPU containers are not listed, so the text is taken as a label.
    if (!listed) return 0;
    // A label that equals this text counts as one with this UUID. A client might have chosen it to
    // impersonate another container.
    size_t found = 0;
    for (const auto& each : *listed) {
        uuid_t id{};
        uuid_of(each.properties.label, id);
        if (std::memcmp(&id, wanted->bytes.data(), sizeof id) != 0) continue;
        label = each.properties.label;
        ++found;
    }
    if (found <= 1) return 0;
    say("container", text, "several labels have this UUID. Use the label");
    return -DER_NONEXIST;
}

int list_containers(Pool& pool, daos_size_t& count, daos_pool_cont_info* out) {
    Report report;
    const auto instance = pool.attach(report);
    if (!instance) {
        say("pool", pool.label, report.text());
        return der_of(instance.error());
    }
    const auto listed = (*instance)->run([&] { return list(*(*instance)->deployment().store()); });
    if (!listed) return der_of(listed.error());
    const daos_size_t room = std::exchange(count, listed->size());
    if (out == nullptr) return 0;
    if (room < listed->size()) return -DER_TRUNC;
    for (const object::ContainerRecord& each : *listed) {
        *out = {};
        uuid_of(each.properties.label, out->pci_uuid);
        each.properties.label.copy(out->pci_label, sizeof out->pci_label - 1);
        ++out;
    }
    return 0;
}

Task<Result<>> destroy(api::c::Instance& instance, std::string label, Report& report) {
    const Call call;
    auto& store = *instance.deployment().store();
    ROS2S_CO_TRY_ASSIGN(const auto record, co_await fs::find_container(call, store, "the pool",
                                                                       std::move(label), report));
    co_return co_await store.destroy_container(call, record.id);
}

void fill(const Container& container, daos_cont_info_t& info) {
    info = {};
    uuid_of(container.label, info.ci_uuid);
    info.ci_nhandles = 1;
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

bool is_initialized() { return initialized > 0; }

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

int create_container(daos_handle_t handle, const char* label, uuid_t* uuid,
                     const ContainerSettings& settings) {
    const auto pool = Handles::table().find<Pool>(handle);
    if (pool == nullptr) return -DER_NO_HDL;
    if ((pool->flags & DAOS_PC_RO) != 0) return -DER_NO_PERM;
    Report report;
    const auto instance = pool->attach(report);
    if (!instance) {
        say("pool", pool->label, report.text());
        return der_of(instance.error());
    }
    const std::string name =
        label != nullptr ? label : Uuid::make((*instance)->reactor().secrets()).to_string();
    // A label that is a UUID could be mistaken for the UUID of another container.
    const bool is_uuid = label != nullptr && Uuid::parse(label).has_value();
    if (is_uuid || !object::is_valid_label(name)) return -DER_INVAL;
    const auto made = (*instance)->run([&] { return create(**instance, name, report); });
    if (!made) {
        if (made.error().code != Code::exists) say("container", name, report.text());
        return der_of(made.error());
    }
    if (uuid != nullptr) uuid_of(name, *uuid);
    if (settings == ContainerSettings()) return 0;
    daos_handle_t made_one{};
    if (const int rc = open_container(handle, name.c_str(), DAOS_COO_RW, made_one); rc != 0) {
        return rc;
    }
    const int rc = keep_settings(Handles::table().find<Container>(made_one), settings);
    daos_cont_close(made_one, nullptr);
    return rc;
}

int connect(const char* label, unsigned flags, daos_handle_t& handle) {
    if (!is_initialized()) return -DER_UNINIT;
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
    auto pool = std::make_shared<Pool>(label, std::move(*where), flags);
    handle = Handles::table().add(std::move(pool));
    return 0;
}

int open_container(daos_handle_t handle, const char* label, unsigned flags, daos_handle_t& out,
                   bool says) {
    const auto pool = Handles::table().find<Pool>(handle);
    if (pool == nullptr) return -DER_NO_HDL;
    if (label == nullptr) return -DER_INVAL;
    std::string found;
    if (const int rc = label_of(*pool, label, found); rc != 0) return rc;
    auto container = std::make_shared<Container>(pool, found, flags);
    std::array<char, 1024> sentence{};
    const std::string uri = pool->where.uri_of(found);
    const int rc =
        ros2s_open(uri.c_str(), nullptr, &container->fs, sentence.data(), sentence.size());
    if (rc != 0) {
        if (says) say("container", label, sentence.data());
        return rc == -EINVAL ? -DER_NONEXIST : der_of_errno(-rc);
    }
    ++pool->containers;
    out = Handles::table().add(std::move(container));
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

// ---- pools

int daos_pool_connect(const char* pool, const char*, unsigned int flags, daos_handle_t* poh,
                      daos_pool_info_t* info, daos_event_t* ev) {
    if (poh == nullptr) return -DER_INVAL;
    const int rc = connect(pool, flags, *poh);
    if (rc == 0 && info != nullptr) {
        info->pi_bits = 0;
        fill(*Handles::table().find<Pool>(*poh), *info);
    }
    return finish_call(ev, rc);
}

int daos_pool_disconnect(daos_handle_t poh, daos_event_t* ev) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (pool->containers > 0) return finish_call(ev, -DER_BUSY);
    Handles::table().remove<Pool>(poh);
    pool->detach();
    return finish_call(ev, 0);
}

int daos_pool_query(daos_handle_t poh, d_rank_list_t** ranks, daos_pool_info_t* info,
                    daos_prop_t* pool_prop, daos_event_t* ev) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (ranks != nullptr) {
        // Rank 0 exists. No rank is disabled or dead.
        const bool asks_bad = info != nullptr &&
                              (info->pi_bits & (DPI_ENGINES_DISABLED | DPI_ENGINES_DEAD)) != 0 &&
                              (info->pi_bits & DPI_ENGINES_ENABLED) == 0;
        *ranks = d_rank_list_alloc(asks_bad ? 0 : 1);
        if (*ranks == nullptr) return finish_call(ev, -DER_NOMEM);
    }
    int rc = info == nullptr ? 0 : fill(*pool, *info);
    if (rc == 0 && pool_prop != nullptr) rc = fill_properties(*pool, *pool_prop);
    return finish_call(ev, rc);
}

int daos_pool_query_target(daos_handle_t poh, uint32_t tgt, d_rank_t rank, daos_target_info_t* info,
                           daos_event_t* ev) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (info == nullptr) return -DER_INVAL;
    if (tgt != 0 || rank != 0) return finish_call(ev, -DER_NONEXIST);
    daos_pool_info_t whole{.pi_bits = DPI_SPACE};
    const int rc = fill(*pool, whole);
    *info = {.ta_type = DAOS_TP_SSD,
             .ta_state = DAOS_TS_UP_IN,
             .ta_perf = 0,
             .ta_space = whole.pi_space.ps_space};
    return finish_call(ev, rc);
}

int daos_pool_list_cont(daos_handle_t poh, daos_size_t* ncont, daos_pool_cont_info* cbuf,
                        daos_event_t* ev) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (ncont == nullptr) return finish_call(ev, -DER_INVAL);
    return finish_call(ev, list_containers(*pool, *ncont, cbuf));
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

// ---- containers

int daos_cont_create(daos_handle_t poh, uuid_t* uuid, daos_prop_t* cont_prop, daos_event_t* ev) {
    const auto* const label = daos_prop_entry_get(cont_prop, DAOS_PROP_CO_LABEL);
    return finish_call(ev, create_container(poh, label == nullptr ? nullptr : label->dpe_str, uuid,
                                            settings_in(cont_prop)));
}

int daos_cont_create_with_label(daos_handle_t poh, const char* label, daos_prop_t* cont_prop,
                                uuid_t* uuid, daos_event_t* ev) {
    if (label == nullptr) return -DER_INVAL;
    return finish_call(ev, create_container(poh, label, uuid, settings_in(cont_prop)));
}

// Not while this process has it open, even with `force`.
int daos_cont_destroy(daos_handle_t poh, const char* cont, int, daos_event_t* ev) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (cont == nullptr) return -DER_INVAL;
    if ((pool->flags & DAOS_PC_RO) != 0) return finish_call(ev, -DER_NO_PERM);
    std::string label;
    if (const int rc = label_of(*pool, cont, label); rc != 0) return finish_call(ev, rc);
    for (const auto& open : Handles::table().all<Container>()) {
        if (open->label == label && open->pool->label == pool->label) {
            return finish_call(ev, -DER_BUSY);
        }
    }
    Report report;
    const auto instance = pool->attach(report);
    const auto done = !instance
                          ? Result<>(fail(instance.error()))
                          : (*instance)->run([&] { return destroy(**instance, label, report); });
    if (!done && done.error().code != Code::not_found) {
        say_once(fmt::format("container '{}': {}", cont,
                             report.text().empty() ? describe(done.error()) : report.text()));
    }
    return finish_call(ev, done ? 0 : der_of(done.error()));
}

int daos_cont_open(daos_handle_t poh, const char* cont, unsigned int flags, daos_handle_t* coh,
                   daos_cont_info_t* info, daos_event_t* ev) {
    if (coh == nullptr) return -DER_INVAL;
    const int rc = open_container(poh, cont, flags, *coh);
    if (rc == 0 && info != nullptr) fill(*Handles::table().find<Container>(*coh), *info);
    return finish_call(ev, rc);
}

int daos_cont_close(daos_handle_t coh, daos_event_t* ev) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (container->mounts > 0) return finish_call(ev, -DER_BUSY);
    EventQueue::drop_everywhere(container->fs);
    container->access.reset();
    const int rc = ros2s_close(container->fs);
    if (rc != 0) return finish_call(ev, der_of_errno(-rc));
    Handles::table().remove<Container>(coh);
    --container->pool->containers;
    return finish_call(ev, 0);
}

int daos_cont_query(daos_handle_t coh, daos_cont_info_t* info, daos_prop_t* cont_prop,
                    daos_event_t* ev) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (info != nullptr) fill(*container, *info);
    return finish_call(ev, cont_prop == nullptr ? 0 : fill_properties(container, *cont_prop));
}

int daos_cont_local2global(daos_handle_t coh, d_iov_t* glob) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return -DER_NO_HDL;
    return write_global(glob, {container->label, std::to_string(container->flags)});
}

int daos_cont_global2local(daos_handle_t poh, d_iov_t glob, daos_handle_t* coh) {
    const auto parts = read_global(glob, 2);
    if (coh == nullptr || parts.empty()) return -DER_INVAL;
    return open_container(poh, parts[0].c_str(), static_cast<unsigned>(parse_number(parts[1])),
                          *coh);
}
