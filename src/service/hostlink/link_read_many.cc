// read_many: a request has as many files as fit into its payload, its body and its reply.
#include <cstring>

#include "link_ask.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::hostlink {
namespace {

class ReadAnswers final : public rpc::ReplyReader {
  public:
    explicit ReadAnswers(std::span<fs::ReadManyItem> items) : items_(items) {}
    Result<> read(const rpc::Reply& reply) override {
        std::vector<uint32_t> crcs;
        ROS2S_TRY(decode_read_answers(reply.body, items_, crcs));
        uint64_t sum = 0;
        for (const fs::ReadManyItem& item : items_) sum += item.bytes;
        if (sum != reply.payload_bytes) return fail(Code::corrupt);
        size_t at = 0;
        for (size_t i = 0; i < items_.size(); ++i) {
            fs::ReadManyItem& item = items_[i];
            const Bytes found = item.window.bytes().first(item.bytes);
            if (reply.where != rpc::Reply::Payload::placed && !found.empty()) {
                std::memcpy(found.data(), reply.payload.subspan(at, found.size()).data(),
                            found.size());
            }
            const bool apart = reply.where == rpc::Reply::Payload::staged;
            at += apart ? item.window.length : found.size();
            if (crc32c(found) == crcs[i]) continue;
            item.status = fail(Code::corrupt);
            item.bytes = 0;
        }
        return {};
    }

  private:
    std::span<fs::ReadManyItem> items_;
};

}  // namespace

Task<Result<>> LinkClient::read_many(const Call& call, NodeId directory,
                                     std::span<fs::ReadManyItem> items) {
    while (!items.empty()) {
        fs::ReadManyItem& first = items.front();
        const uint64_t most = channel_.welcome().payload_bytes_max;
        if (first.name.size() > read_many_name_bytes_max) {
            first.status = fail(Code::name_too_long);
        } else if (!first.window.is_local()) {
            first.status = fail(Code::unsupported);
        } else if (first.window.length > most) {
            first.status = fail(Code::too_large, most);
        } else {
            const auto batch = next_batch(items);
            ROS2S_CO_TRY(co_await read_batch(call, directory, batch));
            items = items.subspan(batch.size());
            continue;
        }
        first.bytes = first.size = 0;
        items = items.subspan(1);
    }
    co_return Result<>{};
}

std::span<fs::ReadManyItem> LinkClient::next_batch(std::span<fs::ReadManyItem> items) const {
    const uint64_t payload_most = channel_.welcome().payload_bytes_max;
    const uint64_t answer_most = channel_.reply_body_bytes_max();
    size_t count = 0;
    uint64_t payload = 0, body = 0, answer = 0;
    for (; count < items.size() && count < read_many_items_max; ++count) {
        const fs::ReadManyItem& item = items[count];
        if (item.name.size() > read_many_name_bytes_max || !item.window.is_local()) break;
        body += read_many_request_bytes(item);
        answer += read_many_answer_bytes;
        if (item.window.length > payload_most - payload) break;
        if (count > 0 && (body > rpc::body_bytes_max / 2 || answer > answer_most)) break;
        payload += item.window.length;
    }
    return items.first(count);
}

Task<Result<>> LinkClient::read_batch(const Call& call, NodeId directory,
                                      std::span<fs::ReadManyItem> items) {
    Buffer body;
    std::vector<Bytes> sink;
    for (const fs::ReadManyItem& item : items) sink.push_back(item.window.bytes());
    ReadAnswers reader(items);
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::read_many),
                                   .repeatable = true,
                                   .sink = sink,
                                   .reply_body_bytes_max = items.size() * read_many_answer_bytes};
    const fs::Caller user = user_of(call);
    const auto encode = [&](const ServerHandle& at) {
        return rpc::build(body, with_user(read_many_fields), user,
                          ReadManyBody{.mount = at.place.mount, .directory = directory}, items);
    };
    co_return co_await ask(call, {}, request, reader, encode);
}

}  // namespace ros2s::hostlink
