// Names and attributes: each operation is one request.
#include "link_ask.h"

#include <algorithm>

namespace ros2s::hostlink {
namespace {

// The server reports what is wrong with a longer name.
std::string_view clipped(std::string_view name) { return name.substr(0, name_text_max); }

}  // namespace

// ---- names ----------------------------------------------------------------------------------

// A repeated look-up leaves one reference too many, until the mount ends.
LinkClient::AttributesTask LinkClient::lookup(const Call& call, NodeId parent,
                                              std::string_view name) {
    return find<fs::Attributes>(call, Method::lookup,
                                NodeBody{.node = parent, .name = clipped(name)});
}

LinkClient::AttributesTask LinkClient::mkdir(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, fs::Owner owner) {
    return change<fs::Attributes>(call, Method::make_directory,
                                  MakeBody{.parent = parent,
                                           .name = clipped(name),
                                           .mode = mode & fs::permission_bits,
                                           .owner = owner});
}

LinkClient::AttributesTask LinkClient::mknod(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, dev_t device, fs::Owner owner) {
    return change<fs::Attributes>(call, Method::make_node,
                                  MakeBody{.parent = parent,
                                           .name = clipped(name),
                                           .mode = mode,
                                           .device = device,
                                           .owner = owner});
}

LinkClient::AttributesTask LinkClient::symlink(const Call& call, NodeId parent,
                                               std::string_view name, std::string_view target,
                                               fs::Owner owner) {
    return change<fs::Attributes>(call, Method::symlink,
                                  MakeBody{.parent = parent,
                                           .name = clipped(name),
                                           .owner = owner,
                                           .target = target.substr(0, target_text_max)});
}

LinkClient::AttributesTask LinkClient::link(const Call& call, NodeId node, NodeId parent,
                                            std::string_view name) {
    return change<fs::Attributes>(call, Method::link,
                                  LinkBody{.node = node, .parent = parent, .name = clipped(name)});
}

Task<Result<>> LinkClient::unlink(const Call& call, NodeId parent, std::string_view name) {
    return change<void>(call, Method::unlink, NodeBody{.node = parent, .name = clipped(name)});
}

Task<Result<>> LinkClient::rmdir(const Call& call, NodeId parent, std::string_view name) {
    return change<void>(call, Method::remove_directory,
                        NodeBody{.node = parent, .name = clipped(name)});
}

Task<Result<>> LinkClient::rename(const Call& call, NodeId parent, std::string_view name,
                                  NodeId new_parent, std::string_view new_name, RenameFlags flags) {
    return change<void>(call, Method::rename,
                        RenameBody{.parent = parent,
                                   .name = clipped(name),
                                   .new_parent = new_parent,
                                   .new_name = clipped(new_name),
                                   .flags = flags});
}

Task<Result<std::string>> LinkClient::readlink(const Call& call, NodeId node) {
    auto target = co_await find<std::string>(call, Method::read_link, NodeBody{.node = node});
    if (target && target->contains('\0')) co_return fail(Code::corrupt);
    co_return target;
}

// A repeated walk leaves references too many, as a repeated look-up does.
Task<Result<fs::Walked>> LinkClient::walk(const Call& call, std::string_view path,
                                          fs::LastLink last) {
    // Walked here: a path that does not fit into a request, and a single name, which needs none.
    const bool needs_none = last == fs::LastLink::unasked && path.find('/', 1) == path.npos;
    if (needs_none || path.size() > path_text_max) return FileSystem::walk(call, path, last);
    return find<fs::Walked>(call, Method::walk, WalkBody{.path = path, .last = last});
}

// ---- attributes -----------------------------------------------------------------------------

LinkClient::AttributesTask LinkClient::get_attributes(const Call& call, NodeId node) {
    return find<fs::Attributes>(call, Method::get_attributes, NodeBody{.node = node});
}

LinkClient::AttributesTask LinkClient::set_attributes(const Call& call, NodeId node,
                                                      const fs::SetAttributes& changes) {
    SetAttributesBody body{.node = node, .changes = changes};
    if (body.changes.mode) *body.changes.mode &= fs::permission_bits;
    return change<fs::Attributes>(call, Method::set_attributes, body);
}

Task<Result<std::string>> LinkClient::get_xattr(const Call& call, NodeId node,
                                                std::string_view name) {
    return find<std::string>(call, Method::get_xattr,
                             NodeBody{.node = node, .name = clipped(name)});
}

Task<Result<>> LinkClient::set_xattr(const Call& call, NodeId node, std::string_view name,
                                     ConstBytes value, fs::SetXattr how) {
    const SetXattrBody body{.node = node,
                            .name = clipped(name),
                            .value = as_text(value).substr(0, value_text_max),
                            .how = how};
    return change<void>(call, Method::set_xattr, body);
}

Task<Result<>> LinkClient::remove_xattr(const Call& call, NodeId node, std::string_view name) {
    return change<void>(call, Method::remove_xattr, NodeBody{.node = node, .name = clipped(name)});
}

Task<Result<std::vector<std::string>>> LinkClient::list_xattrs(const Call& call, NodeId node) {
    return find<std::vector<std::string>>(call, Method::list_xattrs, NodeBody{.node = node});
}

Task<Result<fs::FileSystemSpace>> LinkClient::space(const Call& call) {
    return find<fs::FileSystemSpace>(call, Method::space, MountBody{});
}

// ---- references -----------------------------------------------------------------------------

void LinkClient::forget(NodeId node, uint64_t count) {
    forgotten_.push_back({node, count});
    if (forgotten_.size() < options_.forgotten_together) return;
    const auto sent = static_cast<ptrdiff_t>(std::min(forgotten_.size(), forgets_max));
    const auto first = forgotten_.end() - sent;
    // References that cannot be sent now are sent with the next ones.
    if (forgetting_.try_spawn(send_forgotten(*this, {first, forgotten_.end()}))) {
        forgotten_.erase(first, forgotten_.end());
    }
}

Task<> LinkClient::send_forgotten(LinkClient& self, std::vector<Forgotten> nodes) {
    const Call call{.deadline = self.reactor_.now() + self.options_.close_within};
    // Lost references end with the mount.
    (void)co_await self.find<void>(call, Method::forget, ForgetBody{.nodes = std::move(nodes)});
}

}  // namespace ros2s::hostlink
