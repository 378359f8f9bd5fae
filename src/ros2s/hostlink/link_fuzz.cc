// Any bytes as the body of any request or answer of the host link: refused, or read, written again
// and read as the same.
#include <algorithm>

#include "ros2s/base/check.h"
#include "wire.h"

using namespace ros2s;
using namespace ros2s::hostlink;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

void read(unsigned kind, ConstBytes body) {
    Buffer buffer;
    switch (kind) {
        case 0:
            if (const auto it = decode_file(body)) same(encode_file(buffer, *it), body);
            break;
        case 1:
            if (const auto it = decode_moved(body)) same(encode_moved(buffer, *it), body);
            break;
        case 2:
            if (const auto it = decode_node(body)) same(encode_node(buffer, *it), body);
            break;
        case 3:
            if (const auto it = decode_attributes(body)) same(encode_attributes(buffer, *it), body);
            break;
        case 4:
            if (const auto it = decode_readdir(body)) same(encode_readdir(buffer, *it), body);
            break;
        case 5:
            if (const auto it = decode_entries(body)) {
                same(encode_entries(buffer, *it, body.size()), body);
            }
            break;
        case 6: {
            std::vector<fs::ReadManyItem> items;
            if (const auto it = decode_read_many(body, items)) {
                same(encode_read_many(buffer, *it, items), body);
            }
            break;
        }
        default: {
            std::vector<fs::ReadManyItem> items(kind % 5);
            for (auto& item : items) item.window.length = 1000;
            std::vector<uint32_t> crcs;
            if (decode_read_answers(body, items, crcs)) {
                // A code that this program does not know reads as another.
                ROS2S_CHECK(encode_read_answers(buffer, items, crcs).size() == body.size());
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    read(data[0] % 12, std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
