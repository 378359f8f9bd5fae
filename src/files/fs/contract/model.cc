#include "model.h"

#include <algorithm>

namespace ros2s::fs::contract {

void Model::collect(const NodePtr& node, bool want_directories, std::vector<NodePtr>& into) {
    const bool wanted = want_directories ? node->is_directory() : node->is_file();
    if (wanted && std::ranges::find(into, node) == into.end()) into.push_back(node);
    for (const auto& [name, child] : node->entries) collect(child, want_directories, into);
}
std::vector<Model::NodePtr> Model::directories() const {
    std::vector<NodePtr> all;
    collect(root_, true, all);
    return all;
}
std::vector<Model::NodePtr> Model::files() const {
    std::vector<NodePtr> all;
    collect(root_, false, all);
    return all;
}

// True if `node` is `top` or below it.
bool Model::is_below(const Node& node, const Node& top) {
    if (&node == &top) return true;
    for (const auto& [name, child] : top.entries) {
        if (is_below(node, *child)) return true;
    }
    return false;
}

Model::Outcomes Model::add(Node& parent, const std::string& name, mode_t mode,
                           std::string contents) {
    if (parent.entries.contains(name)) return {is(Code::exists)};
    parent.entries[name] =
        std::make_shared<Node>(Node{.mode = mode, .contents = std::move(contents)});
    return {success};
}

Model::Outcomes Model::link(const NodePtr& node, Node& parent, const std::string& name) {
    if (parent.entries.contains(name)) return {is(Code::exists)};
    parent.entries[name] = node;
    ++node->links;
    return {success};
}

Model::Outcomes Model::remove(Node& parent, const std::string& name, bool directory) {
    const auto found = parent.entries.find(name);
    if (found == parent.entries.end()) return {is(Code::not_found)};
    Node& node = *found->second;
    if (directory && !node.is_directory()) return {is(Code::not_directory)};
    if (!directory && node.is_directory()) return {is(Code::is_directory)};
    if (!node.entries.empty()) return {is(Code::not_empty)};
    --node.links;
    parent.entries.erase(found);
    return {success};
}

Model::Outcomes Model::rename(Node& parent, const std::string& name, Node& new_parent,
                              const std::string& new_name, FileSystem::RenameFlags flags) {
    const auto found = parent.entries.find(name);
    if (found == parent.entries.end()) return {is(Code::not_found)};
    const NodePtr from = found->second;
    const auto target = new_parent.entries.find(new_name);
    const NodePtr to = target == new_parent.entries.end() ? nullptr : target->second;
    if (flags.no_replace && to != nullptr) return {is(Code::exists)};
    if (flags.exchange && to == nullptr) return {is(Code::not_found)};
    if (from == to) return {success};
    if (from->is_directory() && is_below(new_parent, *from)) return {is(Code::loop)};
    if (flags.exchange) {
        if (to->is_directory() && is_below(parent, *to)) return {is(Code::loop)};
        std::swap(parent.entries[name], new_parent.entries[new_name]);
        return {success};
    }
    if (to != nullptr) {
        if (from->is_directory() && !to->is_directory()) return {is(Code::not_directory)};
        if (!from->is_directory() && to->is_directory()) {
            // Linux checks first whether the target contains the source.
            if (is_below(parent, *to)) return {is(Code::is_directory), is(Code::not_empty)};
            return {is(Code::is_directory)};
        }
        if (!to->entries.empty()) return {is(Code::not_empty)};
        --to->links;
    }
    parent.entries.erase(name);
    new_parent.entries[new_name] = from;
    return {success};
}

}  // namespace ros2s::fs::contract
