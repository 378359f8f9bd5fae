// Lists, queries, containers, space: the bodies that go without payload.
#include "wire.h"

#include "fields.h"

namespace ros2s::remote {

using namespace object;

// ---- list -----------------------------------------------------------------------------------

ConstBytes encode_list(Buffer& buffer, ContainerId container, const ListRequest& request) {
    // No key is longer, so what lies behind the cut changes nothing in any comparison.
    std::string_view after;
    if (request.after) after = std::string_view(*request.after).substr(0, key_bytes_max + 1);
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        out.number(static_cast<uint8_t>(request.what));
        put(out, request.object);
        out.text(request.dkey.bytes);
        out.text(request.akey.bytes);
        out.number(uint8_t{request.after.has_value()});
        out.text(after);
        out.number(request.limit);
    });
}

Result<> decode_list(ConstBytes body, ContainerId& container, ListRequest& request) {
    Decoder in(body);
    container.uuid = in.uuid();
    request.what = static_cast<ListRequest::What>(in.number<uint8_t>());
    request.object = take_object(in);
    take_key(in, request.dkey.bytes);
    take_key(in, request.akey.bytes);
    const bool has_after = take_flag(in);
    const std::string_view after = in.text(key_bytes_max + 1);
    request.limit = in.number<uint32_t>();
    if (request.what > ListRequest::What::akeys || (!has_after && !after.empty())) in.refuse();
    ROS2S_TRY(finish(in));
    request.after.reset();
    if (has_after) request.after.emplace(after);
    return {};
}

namespace {

constexpr size_t entry_bytes_min = 16;

size_t encoded_bytes(const ListEntry& entry) {
    return entry_bytes_min + entry.key.size() + entry.value.size();
}

size_t encoded_bytes(const ContainerRecord& record) {
    return 16 + 4 + record.properties.label.size() + 8 + 8;
}

// How many of the elements fit behind a count and a flag; one does always.
template <class T>
size_t fitting(std::span<const T> elements, size_t bytes_max) {
    size_t count = 0, bytes = sizeof(uint32_t) + 1;
    for (const T& element : elements) {
        bytes += encoded_bytes(element);
        if (count > 0 && bytes > bytes_max) break;
        ++count;
    }
    return count;
}

}  // namespace

ConstBytes encode_listed(Buffer& buffer, const ListReply& reply, size_t bytes_max) {
    const size_t count = fitting(std::span(reply.entries), bytes_max);
    return build(buffer, [&](auto& out) {
        out.number(static_cast<uint32_t>(count));
        for (const ListEntry& entry : std::span(reply.entries).first(count)) {
            out.text(entry.key);
            out.text(entry.value);
            out.number(entry.epoch.value);
        }
        out.number(uint8_t{reply.more || count < reply.entries.size()});
    });
}

Result<> decode_listed(ConstBytes body, ListReply& reply) {
    Decoder in(body);
    const auto count = in.number<uint32_t>();
    if (count > in.left() / entry_bytes_min) return fail(Code::corrupt);
    reply.entries.reserve(reply.entries.size() + count);
    for (uint32_t i = 0; i < count; ++i) {
        ListEntry& entry = reply.entries.emplace_back();
        take_key(in, entry.key);
        entry.value = in.text(value_bytes_max);
        entry.epoch.value = in.number<uint64_t>();
    }
    reply.more = take_flag(in);
    // A page that promises more and brings nothing would be asked for again for ever.
    if (reply.more && count == 0) in.refuse();
    return finish(in);
}

// ---- query ----------------------------------------------------------------------------------

ConstBytes encode_query(Buffer& buffer, ContainerId container, ObjectId object, const Akey& akey) {
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        put(out, object);
        out.text(akey.bytes);
    });
}
Result<> decode_query(ConstBytes body, ContainerId& container, ObjectId& object, Akey& akey) {
    Decoder in(body);
    container.uuid = in.uuid();
    object = take_object(in);
    take_key(in, akey.bytes);
    return finish(in);
}

ConstBytes encode_queried(Buffer& buffer, const QueryReply& reply) {
    return build(buffer, [&](auto& out) {
        out.number(uint8_t{reply.exists});
        out.text(reply.highest_dkey.bytes);
        out.number(reply.size);
        out.number(reply.last_epoch.value);
        put(out, reply.last_time);
        out.number(reply.bytes_used);
    });
}
Result<QueryReply> decode_queried(ConstBytes body) {
    Decoder in(body);
    QueryReply reply;
    reply.exists = take_flag(in);
    take_key(in, reply.highest_dkey.bytes);
    reply.size = in.number<uint64_t>();
    reply.last_epoch.value = in.number<uint64_t>();
    reply.last_time = take_time(in);
    reply.bytes_used = in.number<uint64_t>();
    ROS2S_TRY(finish(in));
    return reply;
}

// ---- containers -----------------------------------------------------------------------------

constexpr size_t label_bytes_max = 127;

template <class Out>
static void put(Out& out, const ContainerProperties& properties) {
    out.text(properties.label);
    out.number(properties.chunk_bytes);
}
static void take(Decoder& in, ContainerProperties& properties) {
    properties.label = in.text(label_bytes_max);
    properties.chunk_bytes = in.number<uint64_t>();
}
template <class Out>
static void put(Out& out, const ContainerRecord& record) {
    out.uuid(record.id.uuid);
    put(out, record.properties);
    put(out, record.created);
}
static void take(Decoder& in, ContainerRecord& record) {
    record.id.uuid = in.uuid();
    take(in, record.properties);
    record.created = take_time(in);
}

ConstBytes encode_create(Buffer& buffer, const Creation& creation) {
    return build(buffer, [&](auto& out) {
        out.uuid(creation.owner);
        out.number(creation.digest);
        put(out, creation.properties);
    });
}
Result<Creation> decode_create(ConstBytes body) {
    Decoder in(body);
    Creation creation;
    creation.owner = in.uuid();
    creation.digest = in.number<uint64_t>();
    take(in, creation.properties);
    ROS2S_TRY(finish(in));
    return creation;
}

ConstBytes encode_created(Buffer& buffer, const ContainerRecord& record) {
    return build(buffer, [&](auto& out) { put(out, record); });
}
Result<ContainerRecord> decode_created(ConstBytes body) {
    Decoder in(body);
    ContainerRecord record;
    take(in, record);
    ROS2S_TRY(finish(in));
    return record;
}

ConstBytes encode_destroy(Buffer& buffer, const Destruction& destruction) {
    return build(buffer, [&](auto& out) {
        out.uuid(destruction.owner);
        out.number(destruction.digest);
        out.uuid(destruction.container.uuid);
    });
}
Result<Destruction> decode_destroy(ConstBytes body) {
    Decoder in(body);
    Destruction destruction;
    destruction.owner = in.uuid();
    destruction.digest = in.number<uint64_t>();
    destruction.container.uuid = in.uuid();
    ROS2S_TRY(finish(in));
    return destruction;
}

ConstBytes encode_list_containers(Buffer& buffer, std::string_view after) {
    return build(buffer, [&](auto& out) { out.text(after.substr(0, label_bytes_max)); });
}
Result<std::string> decode_list_containers(ConstBytes body) {
    Decoder in(body);
    std::string after(in.text(label_bytes_max));
    ROS2S_TRY(finish(in));
    return after;
}

ConstBytes encode_containers(Buffer& buffer, std::span<const ContainerRecord> records,
                             std::string_view after, size_t bytes_max) {
    while (!records.empty() && records.front().properties.label <= after) {
        records = records.subspan(1);
    }
    const size_t count = fitting(records, bytes_max);
    return build(buffer, [&](auto& out) {
        out.number(static_cast<uint32_t>(count));
        for (const ContainerRecord& record : records.first(count)) put(out, record);
        out.number(uint8_t{count < records.size()});
    });
}
Result<> decode_containers(ConstBytes body, ContainerPage& page) {
    Decoder in(body);
    const auto count = in.number<uint32_t>();
    if (count > in.left() / encoded_bytes(ContainerRecord())) return fail(Code::corrupt);
    for (uint32_t i = 0; i < count; ++i) take(in, page.records.emplace_back());
    page.more = take_flag(in);
    if (page.more && count == 0) in.refuse();
    return finish(in);
}

// ---- the pool -------------------------------------------------------------------------------

ConstBytes encode_space(Buffer& buffer, const PoolSpace& space) {
    return build(buffer, [&](auto& out) {
        out.number(space.total_bytes);
        out.number(space.free_bytes);
    });
}
Result<PoolSpace> decode_space(ConstBytes body) {
    Decoder in(body);
    PoolSpace space;
    space.total_bytes = in.number<uint64_t>();
    space.free_bytes = in.number<uint64_t>();
    ROS2S_TRY(finish(in));
    return space;
}

namespace {

constexpr size_t path_bytes_max = 1024;

// A feature's bit, for ever; bits that this program does not know are left alone.
struct FeatureBit {
    bool Features::* member;
    uint64_t bit;
};
constexpr FeatureBit feature_bits[] = {
    {&Features::multi_object_transactions, 1},
    {&Features::conditions, 2},
    {&Features::stored_replies, 4},
    {&Features::checksums, 8},
    {&Features::durable, 16},
};

}  // namespace

ConstBytes encode_description(Buffer& buffer, const Description& description) {
    uint64_t bits = 0;
    for (const auto& [member, bit] : feature_bits) {
        if (description.features.*member) bits |= bit;
    }
    const auto path = std::string_view(description.path).substr(0, path_bytes_max);
    return build(buffer, [&](auto& out) {
        out.number(bits);
        out.text(path);
    });
}
Result<Description> decode_description(ConstBytes body) {
    Decoder in(body);
    Description description;
    const auto bits = in.number<uint64_t>();
    for (const auto& [member, bit] : feature_bits) description.features.*member = (bits & bit) != 0;
    description.path = in.text(path_bytes_max);
    ROS2S_TRY(finish(in));
    return description;
}

}  // namespace ros2s::remote
