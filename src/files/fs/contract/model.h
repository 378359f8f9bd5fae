// A file system as maps in memory. The property test compares a real one with it. Nothing here is
// asynchronous, durable or fast; its correctness should be obvious.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "suite.h"

namespace ros2s::fs::contract {

class Model {
  public:
    struct Node;
    using NodePtr = std::shared_ptr<Node>;
    struct Node {
        mode_t mode = 0;
        uint32_t links = 1;    // of files
        std::string contents;  // of files; the target of links
        std::map<std::string, NodePtr> entries;
        std::map<std::string, std::string> xattrs;
        NodeId real{};  // the same node in the file system under test
        [[nodiscard]] bool is_directory() const { return S_ISDIR(mode); }
        [[nodiscard]] bool is_file() const { return S_ISREG(mode); }
    };

    Model() : root_(std::make_shared<Node>(Node{.mode = S_IFDIR | 0755, .real = root_node})) {}

    [[nodiscard]] const NodePtr& root() const { return root_; }
    // The nodes that can be reached: directories, and all others.
    [[nodiscard]] std::vector<NodePtr> directories() const;
    [[nodiscard]] std::vector<NodePtr> files() const;

    // The permitted results of an operation: more than one where Linux and POSIX differ.
    using Outcomes = std::vector<Outcome>;
    Outcomes add(Node& parent, const std::string& name, mode_t mode, std::string contents);
    Outcomes link(const NodePtr& node, Node& parent, const std::string& name);
    Outcomes remove(Node& parent, const std::string& name, bool directory);
    Outcomes rename(Node& parent, const std::string& name, Node& new_parent,
                    const std::string& new_name, FileSystem::RenameFlags flags);

  private:
    static void collect(const NodePtr& node, bool want_directories, std::vector<NodePtr>& into);
    [[nodiscard]] static bool is_below(const Node& node, const Node& top);
    NodePtr root_;
};

}  // namespace ros2s::fs::contract
