// Random operations on the file system and on a model. Results and final states must be equal.
#include <algorithm>

#include "model.h"

namespace ros2s::fs::contract {
namespace {

using std::string;
using NodePtr = Model::NodePtr;

class Comparison {
  public:
    Comparison(Fixture& fixture, string where, uint64_t seed)
        : f_(fixture), where_(std::move(where)), random_(seed) {}

    Task<> run(int steps) {
        top_ = co_await f_.directory(root_node, where_);
        model_.root()->real = top_;
        for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
            step_ = i;
            co_await step();
            if (i % 50 == 49) co_await compare(*model_.root(), where_);
        }
        co_await compare(*model_.root(), where_);
        for (const OpenOne& one : open_) co_await f_.close(one.handle);
    }

  private:
    struct OpenOne {
        FileHandle handle{};
        NodePtr node;
    };

    string name() { return string(1, static_cast<char>('a' + random_.below(6))); }
    NodePtr pick(const std::vector<NodePtr>& all) { return all[random_.below(all.size())]; }
    NodePtr directory() { return pick(model_.directories()); }
    // Sometimes an open file, with or without a name; otherwise any file, or nothing.
    NodePtr file() {
        if (!open_.empty() && random_.one_in(3)) return open_[random_.below(open_.size())].node;
        const auto files = model_.files();
        return files.empty() ? nullptr : pick(files);
    }

    void expect(const string& what, const Model::Outcomes& wanted, Outcome got) {
        EXPECT_TRUE(std::ranges::find(wanted, got) != wanted.end())
            << where_ << ", step " << step_ << ", " << what << ": " << got << ", expected "
            << wanted[0];
    }

    Task<> step() {
        switch (random_.below(16)) {
            case 0:
            case 1: return add(S_IFREG | 0644);
            case 2:
            case 3: return add(S_IFDIR | 0755);
            case 4: return add(S_IFLNK | 0777);
            case 5: return f_.traits.hard_links ? link() : write();
            case 6:
            case 7: return remove(false);
            case 8: return remove(true);
            case 9:
            case 10: return rename();
            case 11: return open_or_close();
            case 12: return truncate();
            case 13: return attribute();
            default: return write();
        }
    }

    Task<> add(mode_t mode) {
        const NodePtr parent = directory();
        const string called = name();
        const string target = S_ISLNK(mode) ? name() : "";
        const auto wanted = model_.add(*parent, called, mode, target);
        Result<Attributes> got;
        if (S_ISREG(mode)) {
            got = co_await f_.fs.mknod(f_.call, parent->real, called, mode, 0, f_.owner);
        } else if (S_ISDIR(mode)) {
            got = co_await f_.fs.mkdir(f_.call, parent->real, called, mode & 07777, f_.owner);
        } else {
            got = co_await f_.fs.symlink(f_.call, parent->real, called, target, f_.owner);
        }
        expect("make " + called, wanted, outcome(got));
        if (got) parent->entries[called]->real = got->node;
    }
    Task<> link() {
        const NodePtr node = file();
        if (node == nullptr || node->links == 0) co_return;
        const NodePtr parent = directory();
        const string called = name();
        const auto wanted = model_.link(node, *parent, called);
        expect("link " + called, wanted,
               outcome(co_await f_.fs.link(f_.call, node->real, parent->real, called)));
    }
    Task<> remove(bool is_directory) {
        const NodePtr parent = directory();
        const string called = name();
        const auto wanted = model_.remove(*parent, called, is_directory);
        const auto got = is_directory ? co_await f_.fs.rmdir(f_.call, parent->real, called)
                                      : co_await f_.fs.unlink(f_.call, parent->real, called);
        expect("remove " + called, wanted, outcome(got));
    }
    Task<> rename() {
        const NodePtr from = directory();
        const NodePtr to = directory();
        const string old_name = name();
        const string new_name = name();
        FileSystem::RenameFlags flags;
        if (random_.one_in(5)) flags.exchange = true;
        if (!flags.exchange && random_.one_in(5)) flags.no_replace = true;
        const auto wanted = model_.rename(*from, old_name, *to, new_name, flags);
        const auto got =
            co_await f_.fs.rename(f_.call, from->real, old_name, to->real, new_name, flags);
        expect("rename " + old_name + " to " + new_name, wanted, outcome(got));
    }
    Task<> open_or_close() {
        if (open_.size() == 4 || (!open_.empty() && random_.one_in(2))) {
            const size_t which = random_.below(open_.size());
            co_await f_.close(open_[which].handle);
            open_.erase(open_.begin() + static_cast<long>(which));
            co_return;
        }
        const auto files = model_.files();
        if (files.empty() || !f_.traits.nameless_files) co_return;
        const NodePtr node = pick(files);
        open_.push_back({.handle = co_await f_.open(node->real), .node = node});
    }
    Task<> write() {
        const NodePtr node = file();
        if (node == nullptr) co_return;
        const FileHandle handle = co_await f_.open(node->real);
        const uint64_t offset = random_.below(random_.one_in(3) ? 40'000 : 3'000);
        if (random_.one_in(4)) {
            const uint64_t length = 1 + random_.below(20'000);
            if (offset < node->contents.size()) {
                const uint64_t count = std::min(length, node->contents.size() - offset);
                node->contents.replace(offset, count, count, '\0');
            }
            EXPECT_OK(co_await f_.fs.punch_hole(f_.call, handle, offset, length));
        } else {
            const string bytes = f_.random_bytes(random_.below(10'000));
            if (!bytes.empty() && node->contents.size() < offset + bytes.size()) {
                node->contents.resize(offset + bytes.size());
            }
            if (!bytes.empty()) node->contents.replace(offset, bytes.size(), bytes);
            co_await f_.write(handle, bytes, offset);
        }
        co_await f_.close(handle);
    }
    Task<> truncate() {
        const NodePtr node = file();
        if (node == nullptr) co_return;
        const uint64_t size = random_.below(30'000);
        node->contents.resize(size);
        EXPECT_OK(co_await f_.fs.set_attributes(f_.call, node->real, {.size = size}));
    }
    Task<> attribute() {
        const NodePtr node = random_.one_in(2) ? directory() : file();
        if (node == nullptr || node == model_.root()) co_return;
        if (random_.one_in(2)) {
            const mode_t mode = random_.below(01000);
            node->mode = (node->mode & S_IFMT) | mode;
            EXPECT_OK(co_await f_.fs.set_attributes(f_.call, node->real, {.mode = mode}));
            co_return;
        }
        const string key = "user." + name();
        if (random_.one_in(3)) {
            const Outcome wanted = node->xattrs.erase(key) > 0 ? success : is(Code::no_attribute);
            EXPECT_EQ(outcome(co_await f_.fs.remove_xattr(f_.call, node->real, key)), wanted);
            co_return;
        }
        const string value = f_.random_bytes(random_.below(50));
        node->xattrs[key] = value;
        EXPECT_OK(
            co_await f_.fs.set_xattr(f_.call, node->real, key, as_bytes(value), SetXattr::any));
    }

    // The whole tree, read back.
    Task<> compare(const Model::Node& node, string path) {
        std::vector<string> wanted;
        for (const auto& [called, child] : node.entries) wanted.push_back(called);
        EXPECT_EQ(co_await f_.names(node.real, 3), wanted) << path << ", step " << step_;
        for (const auto& [called, child] : node.entries) {
            const string below = path + "/" + called;
            EXPECT_EQ(co_await f_.node_of(node.real, called), child->real) << below;
            const Attributes attributes = co_await f_.stat(child->real);
            EXPECT_EQ(attributes.mode, child->mode) << below << ", step " << step_;
            co_await compare_xattrs(*child, below);
            if (child->is_directory()) {
                co_await compare(*child, below);
            } else if (child->is_file()) {
                EXPECT_EQ(attributes.links, child->links) << below << ", step " << step_;
                EXPECT_TRUE(co_await f_.contents(child->real) == child->contents)
                    << below << ", step " << step_;
            } else {
                EXPECT_EQ((co_await f_.fs.readlink(f_.call, child->real)).value_or(""),
                          child->contents);
            }
        }
    }
    Task<> compare_xattrs(const Model::Node& node, string path) {
        for (const auto& [key, value] : node.xattrs) {
            const auto got = co_await f_.fs.get_xattr(f_.call, node.real, key);
            EXPECT_TRUE(got && *got == value) << path << " " << key << ", step " << step_;
        }
    }

    Fixture& f_;
    string where_;
    Random random_;
    int step_ = 0;
    NodeId top_{};
    Model model_;
    std::vector<OpenOne> open_;
};

Task<> run_one(Fixture& f, uint64_t seed) {
    Comparison comparison(f, "seed-" + std::to_string(seed), seed);
    co_await comparison.run(f.traits.property_steps);
}

constexpr Case property_table[] = {
    {"RandomOperationsAgreeWithAModel",
     [](Fixture& f) -> Task<> {
         for (int seed = 1; seed <= f.traits.property_runs && !testing::Test::HasFailure();
              ++seed) {
             co_await run_one(f, seed);
         }
     }},
    {"ConcurrentTreesAgreeWithTheirModels",
     [](Fixture& f) -> Task<> {
         Nursery nursery(f.reactor, 8);
         for (uint64_t seed = 1001; seed <= 1008; ++seed) {
             co_await nursery.spawn(run_one(f, seed));
         }
         co_await nursery.join();
     }},
};

}  // namespace

Cases property_cases() { return property_table; }

}  // namespace ros2s::fs::contract
