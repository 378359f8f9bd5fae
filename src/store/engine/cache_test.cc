// A checkpoint's cut: it has each node as it was at one moment, even if the node changes during the
// cut.
#include "cache.h"

#include <gtest/gtest.h>

#include <map>

namespace ros2s::engine {
namespace {

constexpr size_t nodes = 10;

struct Cut {
    NodeCache cache{0, 0};
    std::map<std::string, std::string> taken;

    Cut() {
        for (size_t i = 0; i < nodes; ++i) set(i, "old");
        cache.begin_cut([this](const Node& node) {
            const bool is_first =
                taken.emplace(node.key, node.is_absent() ? "absent" : node.entry()->single).second;
            EXPECT_TRUE(is_first) << node.key;
        });
    }
    static std::string key(size_t i) { return "key " + std::to_string(i); }
    void set(size_t i, const std::string& value) {
        Node* node = cache.find(key(i));
        if (node == nullptr) node = &cache.insert(key(i));
        cache.modify(*node);
        EntryValue& entry = node->value.emplace<EntryValue>();
        entry.kind = EntryValue::Kind::single;
        entry.single = value;
        cache.charge(*node);
    }
    void end() {
        while (cache.take(3)) {
        }
        cache.end_cut();
    }
};

TEST(NodeCache, CutKeepsOldValueOfChangedNode) {
    Cut cut;
    cut.set(nodes - 1, "new");
    EXPECT_TRUE(cut.cache.take(3));
    for (size_t i = 0; i < nodes; ++i) cut.set(i, "newer");
    cut.set(nodes, "later");
    cut.end();
    ASSERT_EQ(cut.taken.size(), nodes);
    for (const auto& [key, value] : cut.taken) EXPECT_EQ(value, "old") << key;
    // The next cut has the changes.
    cut.taken.clear();
    cut.cache.begin_cut(
        [&](const Node& node) { cut.taken[std::string(node.key)] = node.entry()->single; });
    cut.end();
    ASSERT_EQ(cut.taken.size(), nodes + 1);
    EXPECT_EQ(cut.taken.at(Cut::key(0)), "newer");
    EXPECT_EQ(cut.taken.at(Cut::key(nodes)), "later");
    EXPECT_EQ(cut.cache.dirty_bytes(), 0U);
}

TEST(NodeCache, NodeInCutStaysInMemoryUntilWritten) {
    Cut cut;
    while (cut.cache.take(3)) {
    }
    cut.cache.shrink_fully(0);
    EXPECT_EQ(cut.cache.count(), nodes);
    cut.end();
    cut.cache.shrink_fully(0);
    EXPECT_EQ(cut.cache.count(), 0U);
}

}  // namespace
}  // namespace ros2s::engine
