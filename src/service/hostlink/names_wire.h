// This header declares the bodies of requests and replies about names, field by field
// (docs/formats/rpc.md). They are written and read with rpc::build() and rpc::read_body(). A reader
// accepts any bytes; texts that it returns point into them.
//
// The first field of every request is its mount. What follows is the same wherever the mount is.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fields.h"
#include "ros2s/base/fields.h"

namespace ros2s::hostlink {

// Texts may be one byte longer than the file system accepts: its error then names the limit.
inline constexpr size_t name_text_max = fs::name_bytes_max + 1;
inline constexpr size_t target_text_max = fs::link_target_bytes_max + 1;
inline constexpr size_t value_text_max = fs::attribute_value_bytes_max + 1;
inline constexpr size_t path_text_max = 4096;

inline constexpr auto owner_fields = [](auto& io, auto& owner) {
    io("uid", owner.uid);
    io("gid", owner.gid);
    io("umask", owner.umask);
};

// mkdir, mknod and symlink. Fields that a method does not use are 0 or empty.
struct MakeBody {
    session::MountId mount{};
    fs::NodeId parent{};
    std::string_view name;
    uint32_t mode = 0;
    uint64_t device = 0;
    fs::Owner owner;
    std::string_view target;
};
inline constexpr auto make_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("parent", body.parent.value);
    io.text("name", body.name, name_text_max);
    io("mode", body.mode);
    io("device", body.device);
    owner_fields(io, body.owner);
    io.text("target", body.target, target_text_max);
};

struct LinkBody {
    session::MountId mount{};
    fs::NodeId node{}, parent{};
    std::string_view name;
};
inline constexpr auto link_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    io("parent", body.parent.value);
    io.text("name", body.name, name_text_max);
};

struct RenameBody {
    session::MountId mount{};
    fs::NodeId parent{};
    std::string_view name;
    fs::NodeId new_parent{};
    std::string_view new_name;
    fs::Namespace::RenameFlags flags;
};
inline constexpr auto rename_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("parent", body.parent.value);
    io.text("name", body.name, name_text_max);
    io("new parent", body.new_parent.value);
    io.text("new name", body.new_name, name_text_max);
    io("no replacing", body.flags.no_replace);
    io("exchange", body.flags.exchange);
    io("whiteout", body.flags.whiteout);
    owner_fields(io, body.flags.owner);
};

struct SetAttributesBody {
    session::MountId mount{};
    fs::NodeId node{};
    fs::SetAttributes changes;
};
// A flag, and the value, which is 0 if the flag is.
inline constexpr auto optional_field = []<class Io, class Value>(Io& io, const char* is_set,
                                                                 const char* name, Value& value) {
    using T = std::remove_cvref_t<decltype(*value)>;
    bool set = value.has_value();
    T content = value.value_or(T{});
    io(is_set, set);
    io(name, content);
    if constexpr (Io::reads) {
        io.refuse_when(!set && content != T{});
        if (set) value = content;
    }
};
inline constexpr auto set_attributes_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    optional_field(io, "new mode", "mode", body.changes.mode);
    optional_field(io, "new uid", "uid", body.changes.uid);
    optional_field(io, "new gid", "gid", body.changes.gid);
    optional_field(io, "new size", "size", body.changes.size);
    optional_field(io, "new access", "of access", body.changes.accessed);
    optional_field(io, "new change of data", "of change of data", body.changes.modified);
    optional_field(io, "new flags", "flags", body.changes.flags);
    io("keeps set-ids", body.changes.keeps_set_ids);
    io("clears set-ids", body.changes.clears_set_ids);
};

struct SetXattrBody {
    session::MountId mount{};
    fs::NodeId node{};
    std::string_view name;
    std::string_view value;
    fs::SetXattr how = fs::SetXattr::any;
};
inline constexpr auto set_xattr_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    io.text("name", body.name, name_text_max);
    io.text("value", body.value, value_text_max);
    io.choice("how", body.how, fs::SetXattr::without_set_group);
};

inline constexpr auto open_flags_fields = [](auto& io, auto& flags) {
    io("read", flags.read);
    io("write", flags.write);
    io("append", flags.append);
    io("truncate", flags.truncate);
    io("exclusive", flags.exclusive);
    io("execute", flags.execute);
    io("keeps set-ids", flags.keeps_set_ids);
    io("nameless", flags.nameless);
};

struct OpenBody {
    session::MountId mount{};
    fs::NodeId node{};
    fs::OpenFlags flags;
};
inline constexpr auto open_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    open_flags_fields(io, body.flags);
};

struct CreateBody {
    session::MountId mount{};
    fs::NodeId parent{};
    std::string_view name;
    uint32_t mode = 0;
    fs::Owner owner;
    fs::OpenFlags flags;
};
inline constexpr auto create_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("parent", body.parent.value);
    io.text("name", body.name, name_text_max);
    io("mode", body.mode);
    owner_fields(io, body.owner);
    open_flags_fields(io, body.flags);
};

struct HandleBody {
    session::MountId mount{};
    fs::FileHandle handle{};
};
inline constexpr auto handle_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("handle", body.handle.value);
};

struct ForgetBody {
    session::MountId mount{};
    std::vector<Forgotten> nodes;
};
inline constexpr auto forget_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io.list("nodes", body.nodes, forgets_max, [](auto& element_io, auto& each) {
        element_io("node", each.node.value);
        element_io("references", each.count);
    });
};

struct WalkBody {
    session::MountId mount{};
    std::string_view path;
    fs::LastLink last = fs::LastLink::follow;
};
inline constexpr auto walk_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io.text("path", body.path, path_text_max);
    io.choice("last link", body.last, fs::LastLink::unasked);
};

struct OpenPathBody {
    session::MountId mount{};
    std::string_view path;
    fs::PathOpen how;
};
inline constexpr auto open_path_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io.text("path", body.path, path_text_max);
    io("creates", body.how.creates);
    io("follows", body.how.follows);
    io("mode", body.how.mode);
    owner_fields(io, body.how.owner);
    open_flags_fields(io, body.how.flags);
};

// lookup_many, look_up_names, create_many and unlink_many. Fields that a method does not use are 0.
struct NamesBody {
    session::MountId mount{};
    fs::NodeId parent{};
    uint32_t mode = 0;
    fs::Owner owner;
    std::vector<std::string_view> names;
};
inline constexpr auto names_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("parent", body.parent.value);
    io("mode", body.mode);
    owner_fields(io, body.owner);
    io.list("names", body.names, fs::names_together_max,
            [](auto& name_io, auto& name) { name_io.text("name", name, name_text_max); });
};

struct ReaddirManyBody {
    session::MountId mount{};
    fs::NodeId node{};  // of the handle
    fs::FileHandle handle{};
    uint64_t cookie = 0;
    uint32_t limit = 0;
};
inline constexpr auto readdir_many_fields = [](auto& io, auto& body) {
    io("mount", body.mount.value);
    io("node", body.node.value);
    io("handle", body.handle.value);
    io("cookie", body.cookie);
    io("limit", body.limit);
    io.refuse_when(body.limit > fs::names_together_max);
};

struct MountBody {
    session::MountId mount{};
};
inline constexpr auto mount_fields = [](auto& io, auto& body) { io("mount", body.mount.value); };

// The fields of each body.
constexpr auto fields_of(const MountBody&) { return mount_fields; }
constexpr auto fields_of(const NodeBody&) { return node_fields; }
constexpr auto fields_of(const MakeBody&) { return make_fields; }
constexpr auto fields_of(const LinkBody&) { return link_fields; }
constexpr auto fields_of(const RenameBody&) { return rename_fields; }
constexpr auto fields_of(const SetAttributesBody&) { return set_attributes_fields; }
constexpr auto fields_of(const SetXattrBody&) { return set_xattr_fields; }
constexpr auto fields_of(const OpenBody&) { return open_fields; }
constexpr auto fields_of(const CreateBody&) { return create_fields; }
constexpr auto fields_of(const HandleBody&) { return handle_fields; }
constexpr auto fields_of(const ForgetBody&) { return forget_fields; }
constexpr auto fields_of(const WalkBody&) { return walk_fields; }
constexpr auto fields_of(const OpenPathBody&) { return open_path_fields; }
constexpr auto fields_of(const NamesBody&) { return names_fields; }
constexpr auto fields_of(const ListenBody&) { return listen_fields; }

// ---- replies --------------------------------------------------------------------------------

inline constexpr auto opened_fields = [](auto& io, auto& opened) {
    io("handle", opened.handle.value);
    attributes_fields(io, opened.attributes);
};
// Of a link, or the value of an extended attribute.
inline constexpr auto content_fields = [](auto& io, auto& text) {
    io.text("content", text, fs::attribute_value_bytes_max);
};
inline constexpr auto xattr_names_fields = [](auto& io, auto& names) {
    io.list("names", names, fs::attribute_value_bytes_max,
            [](auto& name_io, auto& name) { name_io.text("name", name, fs::name_bytes_max); });
};
inline constexpr auto walked_fields = []<class Io>(Io& io, auto& walked) {
    io("parent", walked.parent.value);
    // A name that was not looked up may be as long as the path.
    io.text("name", walked.name, path_text_max);
    bool is_found = walked.attributes.has_value();
    io("found", is_found);
    fs::Attributes attributes = walked.attributes.value_or(fs::Attributes{});
    if (io.has("where it was found", is_found)) attributes_fields(io, attributes);
    if constexpr (Io::reads) {
        if (is_found) walked.attributes = attributes;
    }
};
// The result of a look-up among many.
inline constexpr auto result_fields = []<class Io>(Io& io, auto& result) {
    Result<> status{};
    fs::Attributes attributes;
    if constexpr (!Io::reads) {
        if (result) {
            attributes = *result;
        } else {
            status = fail(result.error());
        }
    }
    io.part("status", status, rpc::status_fields);
    if (io.has("where it is fine", status.has_value())) attributes_fields(io, attributes);
    if constexpr (Io::reads) {
        if (status) {
            result = attributes;
        } else {
            result = fail(status.error());
        }
    }
};
// Results start as errors, which take the fewest bytes.
struct FoundName {
    Result<fs::Attributes> result = fail(Code::not_found);
};
inline constexpr auto found_names_fields = [](auto& io, auto& found) {
    io.list("names", found, fs::names_together_max,
            [](auto& name_io, auto& name) { result_fields(name_io, name.result); });
};
struct FoundEntry {
    fs::DirectoryEntry entry;
    Result<fs::Attributes> result = fail(Code::not_found);
};
inline constexpr auto found_entry_fields = [](auto& io, auto& found) {
    entry_fields(io, found.entry);
    result_fields(io, found.result);
};
inline constexpr auto found_entries_fields = [](auto& io, auto& found) {
    io.list("entries", found, fs::names_together_max, found_entry_fields);
};
// A result with its errno, which distinguishes a missing right (EACCES) from what only an owner may
// (EPERM).
inline uint16_t code_of(const Result<>& result) {
    if (result) return 0;
    const int os_errno = result.error().os_errno;
    const bool fits = os_errno >= 0 && os_errno <= 0xff;
    return static_cast<uint16_t>(rpc::to_wire(result.error().code) | (fits ? os_errno << 8 : 0));
}
inline Result<> result_of(uint16_t code) {
    if (code == 0) return {};
    const Code known = rpc::code_from_wire(static_cast<uint16_t>(code & 0xff));
    return fail(Error{.code = known, .os_errno = code >> 8});
}
// The codes of all results; none if all are fine.
struct CodesBody {
    std::vector<uint16_t> codes;
};
inline constexpr auto codes_fields = [](auto& io, auto& body) {
    io.numbers("codes (0: fine)", body.codes);
    io.refuse_when(body.codes.size() > fs::blocks_together_max);
};
inline constexpr auto space_fields = [](auto& io, auto& space) {
    io("total bytes", space.total_bytes);
    io("free bytes", space.free_bytes);
    io("files", space.files);
    io("files at most", space.files_max);
};
struct Nothing {};
inline constexpr auto nothing_fields = [](auto& /*io*/, auto& /*nothing*/) {};

// The fields of each reply.
constexpr auto fields_of(const Nothing&) { return nothing_fields; }
constexpr auto fields_of(const MovedBody&) { return moved_fields; }
constexpr auto fields_of(const fs::Attributes&) { return attributes_fields; }
constexpr auto fields_of(const fs::Opened&) { return opened_fields; }
constexpr auto fields_of(const fs::Walked&) { return walked_fields; }
constexpr auto fields_of(const std::string&) { return content_fields; }
constexpr auto fields_of(const std::vector<std::string>&) { return xattr_names_fields; }
constexpr auto fields_of(const fs::FileSystemSpace&) { return space_fields; }
constexpr auto fields_of(const std::vector<FoundName>&) { return found_names_fields; }
constexpr auto fields_of(const std::optional<object::Lock>&) { return object::lock_reply_fields; }
constexpr auto fields_of(const CodesBody&) { return codes_fields; }
constexpr auto fields_of(const session::LeaseNews&) { return news_fields; }
constexpr auto fields_of(const std::vector<fs::DirectoryEntry>&) { return entries_fields; }
constexpr auto fields_of(const std::vector<FoundEntry>&) { return found_entries_fields; }

}  // namespace ros2s::hostlink
