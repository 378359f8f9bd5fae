#include "link_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/crc32c.h"

namespace ros2s::hostlink {
namespace {

// Updates at once; what a server grants is less.
constexpr uint32_t update_slots = 256;
// Longer writes are cut at multiples of it: no chunk's atomicity is broken where chunks are no
// larger.
constexpr uint64_t cut_bytes = uint64_t{1} << 20;

// Copies a payload that did not come to lie where it belongs.
void settle(const rpc::Reply& reply, Bytes into) {
    if (reply.where == rpc::Reply::Payload::placed) return;
    std::ranges::copy(reply.payload, into.begin());
}

class ReadMoved final : public rpc::ReplyReader {
  public:
    explicit ReadMoved(Bytes into) : into_(into) {}
    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY_ASSIGN(const MovedBody moved, decode_moved(reply.body));
        if (moved.bytes != reply.payload_bytes || moved.bytes > into_.size()) {
            return fail(Code::corrupt);
        }
        const Bytes found = into_.first(moved.bytes);
        settle(reply, found);
        if (crc32c(found) != moved.crc) return fail(Code::corrupt);
        bytes = moved.bytes;
        return {};
    }
    uint64_t bytes = 0;

  private:
    Bytes into_;
};

class ReadDone final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY_ASSIGN(const MovedBody moved, decode_moved(reply.body));
        bytes = moved.bytes;
        return {};
    }
    uint64_t bytes = 0;
};

class ReadNothing final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

template <class T, Result<T> (*decode)(ConstBytes)>
class ReadBody final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY_ASSIGN(value, decode(reply.body));
        return {};
    }
    T value{};
};

Result<> check_local(const fs::Window& window) {
    if (!window.is_local()) return fail(Code::unsupported);
    return {};
}

}  // namespace

// Borrows a slot and its next sequence number.
class [[nodiscard]] LinkClient::UpdateSlot {
  public:
    // After one unit of free_count_ was acquired.
    explicit UpdateSlot(LinkClient& owner) : owner_(owner), slot_(owner.free_slots_.back()) {
        owner_.free_slots_.pop_back();
        ++owner_.sequences_[slot_];
    }
    UpdateSlot(const UpdateSlot&) = delete;
    UpdateSlot& operator=(const UpdateSlot&) = delete;
    ~UpdateSlot() {
        owner_.free_slots_.push_back(slot_);
        owner_.free_count_.release();
    }
    [[nodiscard]] rpc::OperationId id() const {
        return {
            .client = owner_.options_.client, .slot = slot_, .sequence = owner_.sequences_[slot_]};
    }

  private:
    LinkClient& owner_;
    uint32_t slot_;
};

LinkClient::LinkClient(Reactor& reactor, rpc::Channel& channel, fs::Namespace& names,
                       Options options)
    : reactor_(reactor),
      channel_(channel),
      names_(names),
      options_(std::move(options)),
      free_count_(reactor, update_slots),
      sequences_(update_slots) {
    for (uint32_t i = 0; i < update_slots; ++i) free_slots_.push_back(update_slots - 1 - i);
}
LinkClient::~LinkClient() { ROS2S_CHECK(open_.empty()); }

Task<> LinkClient::close_all() {
    const Call call;
    while (!open_.empty()) (void)co_await close(call, open_.begin()->first);
}

Task<Result<fs::Opened>> LinkClient::open(const Call& call, NodeId node, fs::OpenFlags flags) {
    auto opened = co_await names_.open(call, node, flags);
    if (opened) open_[opened->handle].append = flags.append;
    co_return opened;
}
Task<Result<fs::Opened>> LinkClient::create(const Call& call, NodeId parent, std::string_view name,
                                            mode_t mode, fs::OpenFlags flags, fs::Owner owner) {
    auto opened = co_await names_.create(call, parent, name, mode, flags, owner);
    if (opened) open_[opened->handle].append = flags.append;
    co_return opened;
}
Task<Result<>> LinkClient::close(const Call& call, fs::FileHandle handle) {
    if (open_.erase(handle) == 0) co_return fail(Code::stale);
    co_return co_await names_.close(call, handle);
}

Result<LinkClient::Open*> LinkClient::opened(fs::FileHandle handle) {
    const auto found = open_.find(handle);
    if (found == open_.end()) return fail(Code::stale);
    return &found->second;
}

Result<fs::PathReport> LinkClient::path_report(fs::FileHandle handle) const {
    const auto found = open_.find(handle);
    if (found == open_.end()) return fail(Code::stale);
    fs::PathReport report = found->second.report;
    report.path = fmt::format("host link over {} to {}", channel_.provider(), options_.behind);
    return report;
}

// ---- bytes of files -------------------------------------------------------------------------

Task<Result<uint64_t>> LinkClient::pread(const Call& call, fs::FileHandle handle, fs::Window into,
                                         uint64_t offset) {
    ROS2S_CO_TRY(check_local(into));
    ROS2S_CO_TRY(opened(handle));
    const Bytes whole = into.bytes();
    uint64_t done = 0;
    do {
        const uint64_t most = channel_.welcome().payload_bytes_max;
        const Bytes part = whole.subspan(done, std::min<uint64_t>(whole.size() - done, most));
        ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                            co_await read_part(call, handle, part, offset + done));
        done += bytes;
        if (bytes < part.size()) break;
    } while (done < whole.size());
    if (const auto file = opened(handle)) {
        ++(*file)->report.reads;
        (*file)->report.read_bytes += done;
    }
    co_return done;
}

Task<Result<uint64_t>> LinkClient::read_part(const Call& call, fs::FileHandle handle, Bytes into,
                                             uint64_t offset) {
    Buffer body;
    const Bytes sink[] = {into};
    ReadMoved reader(into);
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::read),
        .repeatable = true,
        .body = encode_file(body, {.mount = options_.mount, .handle = handle, .offset = offset}),
        .sink = sink,
        .reply_body_bytes_max = sizeof(uint64_t) + sizeof(uint32_t)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return reader.bytes;
}

Task<Result<uint64_t>> LinkClient::pwrite(const Call& call, fs::FileHandle handle, fs::Window from,
                                          uint64_t offset) {
    ROS2S_CO_TRY(check_local(from));
    ROS2S_CO_TRY_ASSIGN(const Open* file, opened(handle));
    const ConstBytes whole = from.bytes();
    const uint64_t most = channel_.welcome().payload_bytes_max;
    // An append goes to the end as one.
    if (file->append && whole.size() > most) co_return fail(Code::too_large, most);
    uint64_t done = 0;
    do {
        uint64_t length = whole.size() - done;
        if (length > most) length = most - (offset + done + most) % cut_bytes;
        const ConstBytes part = whole.subspan(done, length);
        const FileBody body{.handle = handle, .offset = offset + done, .crc = crc32c(part)};
        ROS2S_CO_TRY_ASSIGN(const uint64_t bytes, co_await update(call, Method::write, body, part));
        if (bytes != part.size()) co_return fail(Code::corrupt);
        done += bytes;
    } while (done < whole.size());
    if (const auto still = opened(handle)) {
        ++(*still)->report.writes;
        (*still)->report.written_bytes += done;
    }
    co_return done;
}

Task<Result<>> LinkClient::punch_hole(const Call& call, fs::FileHandle handle, uint64_t offset,
                                      uint64_t length) {
    ROS2S_CO_TRY(opened(handle));
    ROS2S_CO_TRY(co_await update(call, Method::punch_hole,
                                 {.handle = handle, .offset = offset, .length = length}, {}));
    co_return Result<>{};
}

Task<Result<uint64_t>> LinkClient::update(const Call& call, Method method, FileBody file,
                                          ConstBytes payload) {
    co_await free_count_.acquire();
    const UpdateSlot slot(*this);
    file.mount = options_.mount;
    Buffer body;
    ReadDone reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method),
                                   .id = slot.id(),
                                   .body = encode_file(body, file),
                                   .payload = std::span(&payload, payload.empty() ? 0 : 1),
                                   .reply_body_bytes_max = sizeof(uint64_t) + sizeof(uint32_t)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return reader.bytes;
}

Task<Result<>> LinkClient::fsync(const Call& call, fs::FileHandle handle) {
    ROS2S_CO_TRY(opened(handle));
    Buffer body;
    ReadNothing reader;
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::sync),
        .repeatable = true,
        .body = encode_file(body, {.mount = options_.mount, .handle = handle})};
    co_return co_await channel_.call(call, request, reader);
}

// ---- metadata at rate -----------------------------------------------------------------------

LinkClient::AttributesTask LinkClient::lookup(const Call& call, NodeId parent,
                                              std::string_view name) {
    ROS2S_CO_TRY(fs::check_name(name));
    co_return co_await ask_node(call, Method::lookup,
                                {.mount = options_.mount, .node = parent, .name = name});
}
LinkClient::AttributesTask LinkClient::get_attributes(const Call& call, NodeId node) {
    return ask_node(call, Method::get_attributes, {.mount = options_.mount, .node = node});
}
LinkClient::AttributesTask LinkClient::ask_node(const Call& call, Method method, NodeBody body) {
    Buffer buffer;
    ReadBody<fs::Attributes, decode_attributes> reader;
    // A look-up that is repeated leaves one reference too many, until the mount goes.
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method),
                                   .repeatable = true,
                                   .body = encode_node(buffer, body)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return reader.value;
}

Task<Result<std::vector<fs::DirectoryEntry>>> LinkClient::readdir(const Call& call,
                                                                  fs::FileHandle handle,
                                                                  uint64_t cookie, size_t limit) {
    ROS2S_CO_TRY(opened(handle));
    Buffer buffer;
    ReadBody<std::vector<fs::DirectoryEntry>, decode_entries> reader;
    const ReaddirBody asked{
        .mount = options_.mount,
        .handle = handle,
        .cookie = cookie,
        .limit = static_cast<uint32_t>(std::min<size_t>(limit, readdir_entries_max))};
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::readdir),
                                   .repeatable = true,
                                   .body = encode_readdir(buffer, asked)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return std::move(reader.value);
}

}  // namespace ros2s::hostlink
