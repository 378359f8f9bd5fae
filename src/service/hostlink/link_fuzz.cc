// Any bytes as the body of any request or reply of the host link: refused, or read, written again
// and read as the same.
#include <algorithm>

#include "names_wire.h"
#include "ros2s/base/check.h"
#include "ros2s/object/checksum.h"

using namespace ros2s;
using namespace ros2s::hostlink;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

template <class Body>
void read_again(ConstBytes body, auto fields) {
    Buffer buffer;
    if (const auto it = rpc::read_body<Body>(body, fields)) {
        same(rpc::build(buffer, fields, *it), body);
    }
}

// With results: a code that this program does not know is read as another one.
template <class Body>
void read_results(ConstBytes body, auto fields) {
    Buffer buffer;
    if (const auto it = rpc::read_body<Body>(body, fields)) {
        ROS2S_CHECK(rpc::build(buffer, fields, *it).size() == body.size());
    }
}

// With its user.
template <class Body>
void read_request(ConstBytes body, auto fields) {
    Buffer buffer;
    fs::UserClaim user;
    Body it;
    if (rpc::read(body, with_user(fields), user, it)) {
        same(rpc::build(buffer, with_user(fields), user, it), body);
    }
}

void read_pieces(ConstBytes body) {
    Buffer buffer;
    FileBody file;
    object::Checksums checksums;
    if (rpc::read(body, pieces_fields, file, checksums)) {
        same(rpc::build(buffer, pieces_fields, file, checksums), body);
    }
}

void read_names(unsigned kind, ConstBytes body) {
    switch (kind) {
        case 12: return read_request<MakeBody>(body, make_fields);
        case 13: return read_request<LinkBody>(body, link_fields);
        case 14: return read_request<RenameBody>(body, rename_fields);
        case 15: return read_request<SetAttributesBody>(body, set_attributes_fields);
        case 16: return read_request<SetXattrBody>(body, set_xattr_fields);
        case 17: return read_request<OpenBody>(body, open_fields);
        case 18: return read_request<CreateBody>(body, create_fields);
        case 19: return read_request<HandleBody>(body, handle_fields);
        case 20: return read_request<ForgetBody>(body, forget_fields);
        case 21: return read_request<MountBody>(body, mount_fields);
        case 22: return read_again<fs::Opened>(body, opened_fields);
        case 23: return read_again<std::string>(body, content_fields);
        case 24: return read_again<std::vector<std::string>>(body, xattr_names_fields);
        case 25: return read_again<fs::FileSystemSpace>(body, space_fields);
        case 26: return read_request<WalkBody>(body, walk_fields);
        case 27: return read_again<fs::Walked>(body, walked_fields);
        case 28: return read_request<OpenPathBody>(body, open_path_fields);
        case 29: return read_request<NamesBody>(body, names_fields);
        case 30: return read_results<std::vector<FoundName>>(body, found_names_fields);
        case 31: return read_again<CodesBody>(body, codes_fields);
        case 32: return read_request<ReaddirManyBody>(body, readdir_many_fields);
        case 33: return read_results<std::vector<FoundEntry>>(body, found_entries_fields);
        case 35: return read_again<session::LeaseNews>(body, news_fields);
        case 36: return read_request<NodeReadBody>(body, node_read_fields);
        case 38: {
            BlocksBody it;
            std::vector<SentBlock> sent;
            fs::UserClaim user;
            if (rpc::read(body, with_user(blocks_fields), user, it, sent)) {
                Buffer buffer;
                same(rpc::build(buffer, with_user(blocks_fields), user, it, sent), body);
            }
            return;
        }
        case 37: return read_again<std::vector<Leased>>(body, leases_fields);
        default: return read_pieces(body);
    }
}

void read(unsigned kind, ConstBytes body) {
    if (kind >= 12) return read_names(kind, body);
    Buffer buffer;
    switch (kind) {
        case 0: return read_again<FileBody>(body, file_fields);
        case 1:
            if (const auto it = rpc::read_body<MovedBody>(body, moved_fields))
                same(encode_moved(buffer, *it), body);
            break;
        case 2: return read_request<NodeBody>(body, node_fields);
        case 3: return read_again<fs::Attributes>(body, attributes_fields);
        case 4: return read_again<ReaddirBody>(body, readdir_fields);
        case 5:
            if (const auto it =
                    rpc::read_body<std::vector<fs::DirectoryEntry>>(body, entries_fields)) {
                same(encode_entries(buffer, *it, body.size()), body);
            }
            break;
        case 6: {
            std::vector<fs::ReadManyItem> items;
            fs::UserClaim claim;
            if (const auto it = decode_read_many(body, claim, items)) {
                const fs::Caller user{.uid = claim.uid, .gid = claim.gid, .groups = claim.groups};
                same(rpc::build(buffer, with_user(read_many_fields), user, *it, items), body);
            }
            break;
        }
        default: {
            std::vector<fs::ReadManyItem> items(kind % 5);
            for (auto& item : items) item.window.length = 1000;
            std::vector<uint32_t> crcs;
            if (decode_read_answers(body, items, crcs)) {
                // A code that this program does not know is read as another one.
                ROS2S_CHECK(encode_read_answers(buffer, items, crcs).size() == body.size());
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    read(data[0] % 39, std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
