#include "store_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "errors.h"
#include "ros2s/api/uri.h"
#include "ros2s/fs/container.h"

namespace ros2s::daos {
namespace {

// The limit of concurrent requests of one container. More requests wait.
constexpr uint32_t slots = 64;

Task<Result<std::shared_ptr<StoreAccess>>> find(api::c::Instance& instance, std::string label,
                                                Report& report) {
    const Call call;
    auto& store = *instance.deployment().store();
    ROS2S_CO_TRY_ASSIGN(const auto record, co_await fs::find_container(call, store, "the pool",
                                                                       std::move(label), report));
    co_return std::shared_ptr<StoreAccess>(
        new StoreAccess{.instance = instance,
                        .store = store,
                        .container = record.id,
                        .slots = {instance.reactor(), record.id.uuid, slots}});
}

int to_key(const daos_key_t& key, bool is_number, size_t bytes_max, std::string& out) {
    if (key.iov_buf == nullptr || key.iov_len == 0) return -DER_INVAL;
    if (key.iov_len > bytes_max) return -DER_KEY2BIG;
    out.assign(static_cast<const char*>(key.iov_buf), key.iov_len);
    if (is_number && out.size() == akey_number_bytes) {
        uint64_t number = 0;
        std::memcpy(&number, out.data(), akey_number_bytes);
        out = object::Dkey::integer(number).bytes;
    }
    return 0;
}

Task<Result<object::ListReply>> list(StoreAccess& access, const object::ListRequest& request) {
    const Call call;
    co_return co_await access.store.list(call, access.container, request);
}

bool are_of_one_akey(const object::FetchItem& one, const object::FetchItem& other) {
    return one.object == other.object && one.dkey == other.dkey && one.akey == other.akey;
}

// The position after a stored key, in an anchor. Longer keys than these are refused by to_dkey().
constexpr size_t anchored_bytes_max = DAOS_ANCHOR_BUF_MAX - 1;

std::optional<std::string> key_in(const daos_anchor_t& anchor) {
    if (anchor.da_type != DAOS_ANCHOR_TYPE_KEY) return std::nullopt;
    const size_t bytes = std::min<size_t>(anchor.da_buf[0], anchored_bytes_max);
    return std::string(reinterpret_cast<const char*>(anchor.da_buf + 1), bytes);
}

void keep_key(std::string_view key, daos_anchor_t& anchor) {
    anchor.da_type = DAOS_ANCHOR_TYPE_KEY;
    anchor.da_buf[0] = static_cast<uint8_t>(key.size());
    std::memcpy(anchor.da_buf + 1, key.data(), key.size());
}

// Writes into the buffers of a list, one after the other.
class Output {
  public:
    explicit Output(d_sg_list_t& list) : list_(list) {
        for (auto& iov : std::span(list.sg_iovs, list.sg_nr)) iov.iov_len = 0;
    }
    // A key is in one buffer. False: there is no room for it.
    bool add(std::string_view key) {
        for (; at_ < list_.sg_nr; ++at_) {
            auto& iov = list_.sg_iovs[at_];
            if (iov.iov_buf_len - iov.iov_len < key.size()) continue;
            std::memcpy(static_cast<char*>(iov.iov_buf) + iov.iov_len, key.data(), key.size());
            iov.iov_len += key.size();
            list_.sg_nr_out = at_ + 1;
            return true;
        }
        return false;
    }

  private:
    d_sg_list_t& list_;
    uint32_t at_ = 0;
};

}  // namespace

bool StoreObject::has_number_dkeys() const {
    switch (type()) {
        case DAOS_OT_DKEY_UINT64:
        case DAOS_OT_MULTI_UINT64:
        case DAOS_OT_KV_UINT64:
        case DAOS_OT_ARRAY:
        case DAOS_OT_ARRAY_ATTR:
        case DAOS_OT_ARRAY_BYTE: return true;
        default: return false;
    }
}

bool StoreObject::has_number_akeys() const {
    return type() == DAOS_OT_AKEY_UINT64 || type() == DAOS_OT_MULTI_UINT64;
}

const char* why_without_objects(Container& container) {
    auto& deployment = container.fs->instance().deployment();
    if (deployment.store() == nullptr)
        return "is reached through a DPU or a mount, which have files";
    if (deployment.store_layers() == nullptr) return nullptr;
    return "may be encrypted (ROS2STORE_KEYS is set), which files are and objects are not";
}

int access_of(Container& container, std::shared_ptr<StoreAccess>& access) {
    const std::lock_guard locked(container.lock);
    if (container.access == nullptr) {
        auto& instance = container.fs->instance();
        const char* const why = why_without_objects(container);
        if (why != nullptr) {
            say_once(
                fmt::format("container '{}': {}. Calls on objects and on attributes of "
                            "containers are not supported",
                            container.label, why));
            return -DER_NOTSUPPORTED;
        }
        Report report;
        auto found = instance.run([&] { return find(instance, container.label, report); });
        if (!found) return der_of(found.error());
        container.access = std::move(*found);
    }
    access = container.access;
    return 0;
}

int open_object(daos_handle_t handle, daos_obj_id_t id, unsigned mode, StoreObject& object) {
    object.container = Handles::table().find<Container>(handle);
    if (object.container == nullptr) return -DER_NO_HDL;
    // An id without a class was not made by daos_obj_generate_oid().
    if (id.hi >> OID_FMT_INTR_BITS == 0) return -DER_INVAL;
    object.id = {.high = id.hi, .low = id.lo};
    object.mode = mode;
    if (const int rc = access_of(*object.container, object.access); rc != 0) return rc;
    ++object.container->mounts;
    return 0;
}

void close_object(StoreObject& object) { --object.container->mounts; }

int open_own(const std::shared_ptr<Container>& container, object::ObjectId id,
             StoreObject& object) {
    object.container = container;
    object.id = id;
    object.mode = DAOS_OO_RW;
    return access_of(*container, object.access);
}

Task<int> fetch_items(StoreAccess& access, std::span<object::FetchItem> items) {
    const Call call;
    const auto differ = [](const object::FetchItem& one, const object::FetchItem& next) {
        return are_of_one_akey(one, next) && one.epoch != next.epoch;
    };
    for (int i = 0; i < refetches_max; ++i) {
        for (size_t at = 0; at < items.size(); at += object::fetch_items_max) {
            const size_t count = std::min(items.size() - at, object::fetch_items_max);
            const auto done =
                co_await access.store.fetch(call, access.container, items.subspan(at, count));
            if (!done) co_return der_of(done.error());
        }
        for (const auto& item : items) {
            if (item.status) continue;
            const auto& error = item.status.error();
            if (error.code == Code::corrupt) co_return -DER_CSUM;
            if (error.code != Code::not_found && error.code != Code::too_small) {
                co_return der_of(error);
            }
        }
        if (std::ranges::adjacent_find(items, differ) == items.end()) co_return 0;
    }
    co_return -DER_AGAIN;
}

Task<int> Update::commit(StoreAccess& access) {
    if (operations_.size() > object::transaction_operations_max) co_return -DER_OVERFLOW;
    const Call call;
    co_await access.slots.wait();
    auto lease = access.slots.take();
    for (const auto& condition : conditions_) lease.require(condition);
    for (const auto& operation : operations_) lease.add(operation);
    const auto done = co_await access.store.update(call, access.container, lease.transaction());
    if (done) co_return 0;
    const auto& error = done.error();
    if (error.code == Code::condition_failed && error.detail < meanings_.size()) {
        co_return meanings_[error.detail];
    }
    co_return error.code == Code::too_large ? -DER_REC2BIG : der_of(error);
}

int to_dkey(const StoreObject& object, const daos_key_t* key, object::Dkey& out) {
    if (key == nullptr) return -DER_INVAL;
    return to_key(*key, object.has_number_dkeys(), anchored_bytes_max, out.bytes);
}

int to_akey_bytes(const StoreObject& object, const daos_key_t& key, std::string& out) {
    // A key-value object has one akey, with an empty name.
    if (key.iov_len == 0 && object.is_key_value()) {
        out.clear();
        return 0;
    }
    return to_key(key, object.has_number_akeys(), anchored_bytes_max - akey_tail_bytes_max, out);
}

std::string from_number_key(bool is_number, std::string_view stored) {
    if (!is_number || stored.size() != akey_number_bytes) return std::string(stored);
    const uint64_t number = object::Dkey{std::string(stored)}.number();
    std::string out(akey_number_bytes, '\0');
    std::memcpy(out.data(), &number, akey_number_bytes);
    return out;
}

Task<Result<std::vector<object::Akey>>> stored_akeys(StoreObject& object, const object::Dkey& dkey,
                                                     const std::string& akey) {
    std::vector<object::Akey> found;
    // No array has records of 2^56 bytes: those of one byte have the greatest tail.
    const object::Akey last = array_akey(akey, 1);
    object::ListRequest request{
        .what = object::ListRequest::What::akeys, .object = object.id, .dkey = dkey, .after = akey};
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const auto reply, co_await list(*object.access, request));
        for (const auto& entry : reply.entries) {
            if (entry.key > last.bytes) co_return found;
            if (parse_akey(entry.key).bytes == akey) found.push_back({entry.key});
            request.after = entry.key;
        }
        if (!reply.more) co_return found;
    }
}

Task<Result<uint64_t>> record_bytes_of(StoreObject& object, const object::Dkey& dkey,
                                       const std::string& akey) {
    ROS2S_CO_TRY_ASSIGN(const auto stored, co_await stored_akeys(object, dkey, akey));
    for (const auto& each : stored) {
        const auto parts = parse_akey(each.bytes);
        if (parts.type == DAOS_IOD_ARRAY) co_return parts.record_bytes;
    }
    co_return 0;
}

int list_keys(StoreObject& object, object::ListRequest request, uint32_t* count,
              daos_key_desc_t* descriptors, d_sg_list_t* out, daos_anchor_t* anchor,
              Shown (*show)(const StoreObject&, const object::ListEntry&)) {
    if (count == nullptr || descriptors == nullptr || out == nullptr || anchor == nullptr ||
        (out->sg_nr > 0 && out->sg_iovs == nullptr)) {
        return -DER_INVAL;
    }
    const uint32_t most = *count;
    uint32_t listed = 0;
    Output output(*out);
    request.object = object.id;
    request.after = key_in(*anchor);
    while (listed < most && anchor->da_type != DAOS_ANCHOR_TYPE_EOF) {
        request.limit = std::min<uint32_t>(most - listed, 1024);
        const auto reply = object.access->run([&] { return list(*object.access, request); });
        if (!reply) return der_of(reply.error());
        for (const auto& entry : reply->entries) {
            const Shown shown = show(object, entry);
            if (!shown.is_left_out) {
                if (!output.add(shown.key)) {
                    *count = listed;
                    if (listed > 0) return 0;
                    descriptors[0].kd_key_len = shown.key.size();
                    return -DER_KEY2BIG;
                }
                descriptors[listed++] = {.kd_key_len = shown.key.size(),
                                         .kd_val_type = shown.value_type};
            }
            request.after = entry.key;
            keep_key(entry.key, *anchor);
        }
        if (!reply->more) anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
    }
    *count = listed;
    return 0;
}

}  // namespace ros2s::daos
