// The table finds what a map finds, and clients cannot choose keys with one hash.
#include "cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "key_locks.h"
#include "ros2s/base/random.h"

namespace ros2s::engine {
namespace {

using OwnedNode = std::unique_ptr<Node, Node::Delete>;

TEST(KeyTable, LookupsAgreeWithAMap) {
    Random random(1);
    KeyTable table(random.next());
    std::map<std::string, OwnedNode> model;
    for (int step = 0; step < 200'000; ++step) {
        // It grows to about 3,500 nodes, shrinks to about 450, and so on.
        const bool grows = step / 20'000 % 2 == 0;
        const std::string key = "key " + std::to_string(random.below(4'000));
        const auto known = model.find(key);
        ASSERT_EQ(table.find(key), known == model.end() ? nullptr : known->second.get()) << key;
        if (known == model.end() && (grows || random.one_in(8))) {
            OwnedNode node = Node::make(key, 0);
            table.add(*node);
            model.emplace(key, std::move(node));
        } else if (known != model.end() && (!grows || random.one_in(8))) {
            table.remove(*known->second);
            model.erase(known);
        }
        ASSERT_EQ(table.count(), model.size());
    }
    for (const auto& [key, node] : model) EXPECT_EQ(table.find(key), node.get());
}

// In a hash of words that are mixed in one after the other without a secret, the second difference
// cancels the first one. So eleven such pairs make 2,048 keys of one hash.
TEST(KeyHash, ClientCannotChooseCollidingKeys) {
    constexpr uint64_t first = uint64_t{1} << 63, second = first ^ uint64_t { 1 } << 34;
    std::set<uint64_t> hashes;
    const uint64_t key = Secrets().next();
    for (uint64_t choice = 0; choice < 2048; ++choice) {
        std::string text;
        for (uint64_t pair = 0; pair < 11; ++pair) {
            const bool other = (choice >> pair & 1) != 0;
            for (const uint64_t word : {other ? first : 0, other ? second : 0}) {
                text.append(reinterpret_cast<const char*>(&word), sizeof word);
            }
        }
        hashes.insert(hash_text(text, key));
    }
    EXPECT_EQ(hashes.size(), 2048U);
}

TEST(LockNames, DifferByKeyContainerObjectAndDkey) {
    std::set<uint64_t> names;
    for (const uint64_t key : {1, 2}) {
        const LockNames of(key);
        for (const uint8_t container : {1, 2}) {
            object::ContainerId id{};
            id.uuid.bytes[0] = container;
            for (const object::ObjectId object : {object::ObjectId{1, 2}, object::ObjectId{2, 1}}) {
                names.insert(of.of(id, object));
                names.insert(LockNames::of(of.of(id, object), "a"));
                names.insert(LockNames::of(of.of(id, object), "b"));
            }
        }
    }
    EXPECT_EQ(names.size(), 2U * 2 * 2 * 3);
}

TEST(KeyHash, EachByteLengthAndKeyChangesTheHash) {
    std::set<uint64_t> hashes;
    size_t texts = 0;
    for (size_t length = 0; length <= 40; ++length) {
        for (const uint64_t key : {0, 1, 2}) {
            std::string text(length, '\0');
            hashes.insert(hash_text(text, key));
            ++texts;
            for (char& byte : text) {
                byte = 1;
                hashes.insert(hash_text(text, key));
                byte = '\0';
                ++texts;
            }
        }
    }
    EXPECT_EQ(hashes.size(), texts);
}

}  // namespace
}  // namespace ros2s::engine
