// Two clients with caches change one file system at random. Each result was true at some moment
// between the beginning and the end of its call. A failure prints the seed.
#include <fmt/format.h>

#include <array>
#include <deque>

#include "ros2s/runtime/nursery.h"
#include "test_support/cached_dfs.h"

namespace ros2s::cache {
namespace {

using fs::Attributes;
using fs::NodeId;
using fs::root_node;

constexpr size_t directories = 2, names = 3;

struct Seen {
    uint64_t node = 0;  // 0: there is none
    uint64_t size = 0;
    uint32_t links = 0;
    mode_t mode = 0;
    WallTime modified{};  // of a directory
    std::string target{};
    friend bool operator==(const Seen&, const Seen&) = default;
};
Seen seen(const Attributes& node) {
    // The links, sizes and times of directories change with what is in them, in the same steps.
    return {.node = node.node.value,
            .size = node.size,
            .links = node.links,
            .mode = node.mode,
            .modified = S_ISDIR(node.mode) ? node.modified : WallTime{}};
}
std::string shown(const Seen& seen) {
    return fmt::format("node {} size {} links {} mode {:o} modified {}", seen.node, seen.size,
                       seen.links, seen.mode, seen.modified.time_since_epoch().count());
}

// All names, and all nodes that have one, or are open.
struct State {
    std::map<std::pair<size_t, size_t>, Seen> by_name;
    std::map<uint64_t, Seen> by_node;
};

class TwoClients {
  public:
    explicit TwoClients(uint64_t seed)
        : dfs_(seed, std::chrono::microseconds(30)),
          table_(dfs_.world.core()),
          random_(seed),
          a_(dfs_.world, table_, *dfs_.checked, {.nodes_max = 6, .names_max = 8}),
          b_(dfs_.world, table_, *dfs_.checked) {
        constexpr std::array delays_us{50, 200, 1000};
        for (CacheClient* const each : {&a_, &b_}) {
            each->lending.delay_max = std::chrono::microseconds(delays_us[seed % 3]);
        }
    }
    void run(int steps) {
        dfs_.world.run(play(steps));
        for (CacheClient* const each : {&a_, &b_}) {
            dfs_.world.run(each->cached->close_all());
            for (const auto& [node, count] : each->lending.references) {
                EXPECT_EQ(count, 0) << "references to node " << node;
            }
        }
        EXPECT_GT(a_.cached->metrics().hits.value() + b_.cached->metrics().hits.value(), 0U);
    }

  private:
    static std::string name_of(size_t index) { return std::string(1, char('a' + index)); }

    // The truth, after each change.
    Task<> take() {
        State state;
        const Call call;
        std::map<uint64_t, Seen> nodes;
        for (size_t d = 0; d < directories; ++d) {
            const auto directory = co_await dfs_.dfs->get_attributes(call, directories_[d]);
            if (directory) state.by_node[directories_[d].value] = seen(*directory);
            for (size_t n = 0; n < names; ++n) {
                const auto found = co_await dfs_.dfs->lookup(call, directories_[d], name_of(n));
                state.by_name[{d, n}] = found ? seen(*found) : Seen{};
                if (found) nodes_.insert(found->node.value);
            }
        }
        for (const uint64_t node : nodes_) {
            const auto found = co_await dfs_.dfs->get_attributes(call, {node});
            state.by_node[node] = found ? seen(*found) : Seen{};
        }
        history_.push_back(std::move(state));
    }

    template <class Is>
    bool was_true(size_t since, Is is) const {
        return std::any_of(history_.begin() + static_cast<ptrdiff_t>(since), history_.end(), is);
    }
    [[nodiscard]] size_t now() const { return history_.size() - 1; }

    void check_name(const char* what, size_t since, size_t directory, size_t name,
                    const Result<Attributes>& found) {
        if (!found && found.error().code != Code::not_found) {
            ADD_FAILURE() << what << ": " << describe(found.error());
            return;
        }
        const Seen got = found ? seen(*found) : Seen{};
        const bool is_true = was_true(
            since, [&](const State& state) { return state.by_name.at({directory, name}) == got; });
        EXPECT_TRUE(is_true) << what << " " << directory << "/" << name_of(name) << ": "
                             << shown(got) << ", and now "
                             << shown(history_.back().by_name.at({directory, name}));
    }
    void check_node(const char* what, size_t since, uint64_t node,
                    const Result<Attributes>& found) {
        const Seen got = found ? seen(*found) : Seen{};
        const bool is_true = was_true(since, [&](const State& state) {
            const auto then = state.by_node.find(node);
            const Seen truth = then == state.by_node.end() ? Seen{} : then->second;
            // A removed node may be used for a while.
            return truth == got || (truth.links == 0 && got.links == 0);
        });
        EXPECT_TRUE(is_true) << what << " of node " << node << ": " << shown(got) << ", and now "
                             << shown(history_.back().by_node[node]);
    }

    // A process: its calls follow one another.
    static Task<> process(TwoClients& self, CacheClient& client, int steps) {
        for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
            co_await self.step(client);
            if (self.random_.one_in(4)) {
                co_await sleep_for(self.dfs_.world.core(),
                                   std::chrono::microseconds(self.random_.below(300)));
            }
        }
    }
    Task<> step(CacheClient& client) {
        CachedFileSystem& files = *client.cached;
        const Call call;
        const size_t d = random_.below(directories), n = random_.below(names);
        const size_t to_d = random_.below(directories), to_n = random_.below(names);
        const NodeId parent = directories_[d], to = directories_[to_d];
        const std::string name = name_of(n), new_name = name_of(to_n);
        const uint64_t node = any_node();
        const size_t since = now();
        switch (random_.below(24)) {
            case 0:
            case 1:
            case 2: {
                const auto found = co_await files.lookup(call, parent, name);
                check_name("look-up", since, d, n, found);
                if (found) files.forget(found->node, 1);
                break;
            }
            case 3:
            case 4:
            case 18:
            case 19: {
                const auto found = co_await files.get_attributes(call, {node});
                check_node("attributes", since, node, found);
                break;
            }
            case 5: {
                std::vector<std::string> all;
                std::vector<std::string_view> views;
                for (size_t i = 0; i < names; ++i) all.push_back(name_of(i));
                for (const std::string& each : all) views.emplace_back(each);
                const auto found = co_await files.lookup_many(call, parent, views);
                for (size_t i = 0; i < names; ++i) {
                    check_name("look-up of many", since, d, i, found[i]);
                    if (found[i]) files.forget(found[i]->node, 1);
                }
                break;
            }
            case 6:
            case 7: co_await open_and_read(client, d, n); break;
            case 21:
            case 22: co_await list(client, d); break;
            case 8: {
                const auto opened = co_await files.create(
                    call, parent, name, 0644,
                    {.write = true, .truncate = random_.one_in(2), .exclusive = random_.one_in(2)},
                    {});
                if (!opened) break;
                check_node("creation", since, opened->attributes.node.value, opened->attributes);
                co_await write(client, opened->handle, opened->attributes.node.value);
                files.forget(opened->attributes.node, 1);
                break;
            }
            case 9: {
                const auto made = co_await files.mknod(call, parent, name, S_IFREG | 0600, 0, {});
                if (made) files.forget(made->node, 1);
                break;
            }
            case 10:
            case 11: (void)co_await files.unlink(call, parent, name); break;
            case 12: {
                const std::vector<std::string_view> both{name, new_name};
                (void)co_await files.unlink_many(call, parent, both);
                break;
            }
            case 13:
            case 14:
            case 20:
                (void)co_await files.rename(call, parent, name, to, new_name,
                                            {.exchange = random_.one_in(4)});
                break;
            case 15: {
                const auto made = co_await files.link(call, {node}, parent, name);
                if (made) files.forget(made->node, 1);
                break;
            }
            case 16: {
                const fs::SetAttributes changes{.mode = 0600 | random_.below(0100),
                                                .size = random_.below(1000)};
                const auto changed = co_await files.set_attributes(call, {node}, changes);
                if (changed) check_node("changed attributes", since, node, changed);
                break;
            }
            default: {
                const auto found = co_await files.lookup(call, parent, name);
                if (!found) break;
                const auto opened = co_await files.open(call, found->node, {.write = true});
                files.forget(found->node, 1);
                if (opened) co_await write(client, opened->handle, found->node.value);
                break;
            }
        }
    }
    // What is open stays usable until it is closed.
    Task<> open_and_read(CacheClient& client, size_t d, size_t n) {
        CachedFileSystem& files = *client.cached;
        const Call call;
        const auto found = co_await files.lookup(call, directories_[d], name_of(n));
        if (!found) co_return;
        const size_t since = now();
        const auto opened = co_await files.open(call, found->node, {});
        files.forget(found->node, 1);
        if (!opened) {
            EXPECT_TRUE(opened.error().code == Code::stale ||
                        opened.error().code == Code::not_found)
                << describe(opened.error());
            co_return;
        }
        check_node("opening", since, found->node.value, opened->attributes);
        if (random_.one_in(2)) {
            co_await sleep_for(dfs_.world.core(), random_.one_in(10)
                                                      ? Duration(std::chrono::seconds(5))
                                                      : Duration(std::chrono::milliseconds(1)));
        }
        if (random_.one_in(2)) {
            std::string text(10, '?');
            const auto bytes =
                co_await files.pread(call, opened->handle,
                                     fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
            EXPECT_TRUE(bytes) << "reading node " << found->node.value << ": "
                               << (bytes ? "" : describe(bytes.error()));
        }
        EXPECT_TRUE(co_await files.close(call, opened->handle));
    }
    // To the end, so that all names are known, too.
    Task<> list(CacheClient& client, size_t d) {
        CachedFileSystem& files = *client.cached;
        const Call call;
        const NodeId directory = directories_[d];
        (void)co_await files.get_attributes(call, directory);
        const auto opened = co_await files.open(call, directory, {});
        EXPECT_TRUE(opened);
        if (!opened) co_return;
        const size_t since = now();
        std::map<size_t, uint64_t> nodes;
        const auto listed = co_await files.readdir_many(call, directory, opened->handle, 0, 10);
        EXPECT_TRUE(listed);
        for (const auto& [entry, attributes] : *listed) {
            const auto n = static_cast<size_t>(entry.name[0] - 'a');
            nodes[n] = entry.node.value;
            check_name("listing", since, d, n, attributes);
            if (attributes) files.forget(attributes->node, 1);
        }
        const bool is_true = was_true(since, [&](const State& state) {
            for (size_t n = 0; n < names; ++n) {
                if (state.by_name.at({d, n}).node != nodes[n]) return false;
            }
            return true;
        });
        EXPECT_TRUE(is_true) << "listing of directory " << d;
        if (!listed->empty()) {
            const uint64_t last = listed->back().entry.cookie;
            const auto end = co_await files.readdir(call, opened->handle, last, 10);
            EXPECT_TRUE(end);
        }
        EXPECT_TRUE(co_await files.close(call, opened->handle));
    }
    Task<> write(CacheClient& client, fs::FileHandle handle, uint64_t node) {
        CachedFileSystem& files = *client.cached;
        const Call call;
        const std::string text(random_.below(30) + 1, 'x');
        EXPECT_TRUE(co_await files.pwrite(call, handle, fs::Window::local(as_bytes(text)),
                                          random_.below(1000)));
        const size_t since = now();
        const auto found = co_await files.get_attributes(call, {node});
        check_node("attributes after a write", since, node, found);
        EXPECT_TRUE(co_await files.close(call, handle));
    }
    // One that has a name, or was seen lately: its name may be gone.
    uint64_t any_node() {
        if (random_.one_in(4)) return directories_[random_.below(directories)].value;
        if (random_.one_in(2)) {
            const Seen& named =
                history_.back().by_name.at({random_.below(directories), random_.below(names)});
            if (named.node != 0) return named.node;
        }
        auto each = nodes_.end();
        std::advance(
            each, -static_cast<ptrdiff_t>(random_.below(std::min<size_t>(nodes_.size(), 4)) + 1));
        return *each;
    }

    Task<> play(int steps) {
        const Call call;
        for (size_t d = 0; d < directories; ++d) {
            // Each client knows all names of the directory that it has made.
            CachedFileSystem& files = *(d == 0 ? a_ : b_).cached;
            const auto made =
                co_await files.mkdir(call, root_node, fmt::format("d{}", d), 0755, {});
            directories_.push_back(made->node);
            nodes_.insert(made->node.value);
            const auto file = co_await files.mknod(call, made->node, "a", S_IFREG | 0644, 0, {});
            nodes_.insert(file->node.value);
            for (const NodeId each : {made->node, file->node}) files.forget(each, 1);
        }
        co_await take();
        table_.changed = [this] { return take(); };
        Nursery nursery(dfs_.world.core(), 8);
        for (int i = 0; i < 3; ++i) {
            co_await nursery.spawn(process(*this, a_, steps));
            co_await nursery.spawn(process(*this, b_, steps));
        }
        co_await nursery.join();
        table_.changed = {};
    }

    OneDfs dfs_;
    LeaseTable table_;
    Random random_;
    CacheClient a_, b_;
    std::vector<NodeId> directories_;
    std::set<uint64_t> nodes_;  // that were seen
    std::deque<State> history_;
};

TEST(TwoCaches, ResultsWereTrueDuringTheirCall) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        TwoClients clients(seed);
        clients.run(60);
        if (testing::Test::HasFailure()) break;
    }
}

}  // namespace
}  // namespace ros2s::cache
