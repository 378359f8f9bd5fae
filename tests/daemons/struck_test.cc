// Exactly once, with real daemons that die between commit and reply. The change is durable, but no
// client has received the reply. The library reconnects and sends the request again with the same
// update name. Appends, exclusive creations, renames and containers are compared with a model, so
// a change that is done twice is detected. strike.h lists the points at which daemons die.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "control_clients.h"
#include "dpu_process.h"
#include "ros2s/base/random.h"
#include "strike.h"

namespace ros2s::tests {
namespace {

const Call call;

enum class Kind : uint8_t { append, create, rename };

uint64_t stored_replies_returned(const EngineProcess& engine) {
    constexpr std::string_view name = "\nros2store_engine_replays_total{pool=\"pool\"} ";
    const std::string scrape = engine.metrics();
    const size_t at = scrape.find(name);
    EXPECT_NE(at, scrape.npos) << scrape;
    return at == scrape.npos ? 0 : std::stoull(scrape.substr(at + name.size()));
}

// The daemons, and which of them is struck.
class StruckDaemons {
  public:
    enum class Victim : uint8_t { engine, dpu, both };

    StruckDaemons(const std::string& provider, Victim victim)
        : dpu(engine, provider), victim_(victim) {
        reactor = started_reactor("client");
        engine.listen_on(provider);
        engine.write_settings();
        EXPECT_TRUE(engine.start());
    }
    // Runs `work`, which waits for a reply. The daemon dies just before the reply, and is started
    // again. Returns how many replies came from the engine's stored replies.
    uint64_t strike(const char* at, const std::function<void()>& work) {
        const uint64_t before =
            victim_ == Victim::dpu ? stored_replies_returned(engine) : 0;  // a new engine has none
        victim_ == Victim::engine ? engine.strike_at(at) : dpu.strike_at(at);
        std::thread guest(work);
        victim_ == Victim::engine ? engine.expect_struck() : dpu.expect_struck();
        if (victim_ == Victim::both) engine.kill_hard();
        EXPECT_TRUE(victim_ == Victim::dpu || engine.start());
        EXPECT_TRUE(victim_ == Victim::engine || dpu.start());
        guest.join();
        return stored_replies_returned(engine) - before;
    }

    EngineProcess engine;
    DpuProcess dpu;
    Report report;
    std::unique_ptr<OsReactor> reactor;

  private:
    Victim victim_;
};

// The operations of one client, one after the other, and the expected state.
class Model {
  public:
    Model(OsReactor& reactor, fs::FileSystem& files, uint64_t seed)
        : reactor_(reactor), files_(files), random_(seed) {
        const auto opened = run_blocking(reactor_, [&] {
            return files_.create(call, fs::root_node, "log", 0644, {.write = true, .append = true},
                                 {});
        });
        EXPECT_TRUE(opened) << describe(opened.error());
        if (opened) log_file_ = opened->handle;
    }

    // Runs an operation that fails if it is done twice.
    void run(Kind kind) {
        switch (kind) {
            case Kind::append: return append();
            case Kind::create: return create();
            case Kind::rename: return rename();
        }
    }
    void compare() {
        std::vector<std::byte> found(log_.size() + 1);
        const auto read = run_blocking(reactor_, [&] {
            return files_.pread(call, log_file_, fs::Window::local(Bytes(found)), 0);
        });
        EXPECT_EQ(read, Result<uint64_t>(log_.size()));
        found.resize(log_.size());
        EXPECT_TRUE(found == log_);
        EXPECT_TRUE(run_blocking(reactor_, [&] { return files_.close(call, log_file_); }));

        const auto root =
            run_blocking(reactor_, [&] { return files_.open(call, fs::root_node, {}); });
        ASSERT_TRUE(root);
        const auto entries =
            run_blocking(reactor_, [&] { return files_.readdir(call, root->handle, 0, 1000); });
        EXPECT_TRUE(run_blocking(reactor_, [&] { return files_.close(call, root->handle); }));
        ASSERT_TRUE(entries);
        std::map<std::string, uint64_t> there;
        for (const fs::DirectoryEntry& each : *entries) {
            if (!each.name.starts_with('.')) there[each.name] = each.node.value;
        }
        there.erase("log");
        EXPECT_EQ(there, nodes_);
    }

  private:
    void append() {
        // With the payload in the request, and in a window.
        std::vector<std::byte> record(random_.below(2) == 0 ? 100 : 100'000);
        std::ranges::generate(record, [&] { return static_cast<std::byte>(random_.next()); });
        log_.insert(log_.end(), record.begin(), record.end());
        const auto written = run_blocking(reactor_, [&] {
            return files_.pwrite(call, log_file_, fs::Window::local(ConstBytes(record)), 0);
        });
        EXPECT_EQ(written, Result<uint64_t>(record.size()));
    }
    void create() {
        const std::string name = fmt::format("made-{}", ++names_);
        const auto made = run_blocking(reactor_, [&] {
            return files_.create(call, fs::root_node, name, 0600,
                                 {.write = true, .exclusive = true}, {});
        });
        ASSERT_TRUE(made) << describe(made.error());
        nodes_[name] = made->attributes.node.value;
        EXPECT_TRUE(run_blocking(reactor_, [&] { return files_.close(call, made->handle); }));
    }
    void rename() {
        auto moved = nodes_.extract(
            std::next(nodes_.begin(), static_cast<long>(random_.below(nodes_.size()))));
        const std::string from = moved.key();
        moved.key() = fmt::format("moved-{}", ++names_);
        const std::string to = moved.key();
        nodes_.insert(std::move(moved));
        const auto renamed = run_blocking(reactor_, [&] {
            return files_.rename(call, fs::root_node, from, fs::root_node, to, {});
        });
        EXPECT_TRUE(renamed) << describe(renamed.error());
    }

    OsReactor& reactor_;
    fs::FileSystem& files_;
    Random random_;
    fs::FileHandle log_file_{};
    std::vector<std::byte> log_;
    std::map<std::string, uint64_t> nodes_;
    uint64_t names_ = 0;
};

// ---- files and names

struct Shape {
    const char* name;
    const char* provider;  // to the engine
    bool through_dpu;
    StruckDaemons::Victim victim;
};

class InterruptedOperations : public testing::TestWithParam<Shape> {};

TEST_P(InterruptedOperations, KillAfterCommitLeavesOneEffect) {
    const Shape& shape = GetParam();
    const uint64_t seed = random_seed();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    StruckDaemons daemons(shape.provider, shape.victim);
    Client client;
    if (shape.through_dpu) ASSERT_TRUE(daemons.dpu.start());
    const auto opened =
        shape.through_dpu
            ? client.open(*daemons.reactor, daemons.dpu.options(), daemons.report)
            : client.open(*daemons.reactor, daemons.engine.options(shape.provider), daemons.report);
    ASSERT_TRUE(opened) << daemons.report.text();

    Model model(*daemons.reactor, client.files(), random.next());
    std::vector<Kind> struck{Kind::append, Kind::create, Kind::rename};
    for (size_t i = struck.size() - 1; i > 0; --i)
        std::swap(struck[i], struck[random.below(i + 1)]);
    uint64_t returned = 0;
    for (const Kind kind : struck) {
        for (const Kind each : {Kind::append, Kind::create, Kind::rename}) model.run(each);
        const bool is_names = kind != Kind::append;
        const char* at = shape.victim == StruckDaemons::Victim::engine ? point::engine_commit
                         : is_names                                    ? point::dpu_change
                                                                       : point::dpu_write;
        const uint64_t replies = daemons.strike(at, [&] { model.run(kind); });
        EXPECT_GE(replies, 1U) << "kind " << static_cast<int>(kind);
        returned += replies;
    }
    for (const Kind each : {Kind::append, Kind::create, Kind::rename}) model.run(each);
    model.compare();
    fmt::print("seed {}: {} strikes, {} stored replies returned\n", seed, struck.size(), returned);
    client.close(*daemons.reactor);
    if (shape.through_dpu) EXPECT_EQ(daemons.dpu.stop(), 0) << daemons.dpu.log();
    EXPECT_EQ(daemons.engine.stop(), 0) << daemons.engine.log();
}

INSTANTIATE_TEST_SUITE_P(
    Daemons, InterruptedOperations,
    testing::Values(Shape{"EngineShm", "shm", false, StruckDaemons::Victim::engine},
                    Shape{"EngineUcxTcp", "ucx+tcp", false, StruckDaemons::Victim::engine},
                    Shape{"EngineOfiTcp", "ofi+tcp;ofi_rxm", false, StruckDaemons::Victim::engine},
                    Shape{"EngineBehindDpu", "shm", true, StruckDaemons::Victim::engine},
                    Shape{"Dpu", "shm", true, StruckDaemons::Victim::dpu},
                    Shape{"DpuAndEngine", "ucx+tcp", true, StruckDaemons::Victim::both}),
    [](const auto& info) { return std::string(info.param.name); });

// ---- containers, by the control planes

struct ContainerShape {
    const char* name;
    bool through_dpu;
    StruckDaemons::Victim victim;
};

class InterruptedContainerCalls : public testing::TestWithParam<ContainerShape> {
  protected:
    void connect() {
        client = (GetParam().through_dpu ? dpu_client : engine_client)(
            *daemons.reactor, daemons.engine.places(), "client");
        // Before its first change a client queries the server.
        create("first");
        destroy("first");
    }
    std::vector<std::string> labels() {
        const auto found = run_blocking(*daemons.reactor, [&] {
            return client->list_containers(call, "pool", daemons.report);
        });
        EXPECT_TRUE(found) << daemons.report.text();
        std::vector<std::string> labels;
        if (found) {
            for (const auto& each : *found) labels.push_back(each.properties.label);
        }
        std::ranges::sort(labels);
        return labels;
    }
    void create(const std::string& label) {
        EXPECT_TRUE(run_blocking(*daemons.reactor, [&] {
            return client->create_container(call, "pool", {.label = label}, {}, daemons.report);
        })) << daemons.report.text();
    }
    void destroy(const std::string& label) {
        EXPECT_TRUE(run_blocking(*daemons.reactor, [&] {
            return client->destroy_container(call, "pool", label, daemons.report);
        })) << daemons.report.text();
    }
    Task<> drop() {
        client.reset();
        co_return;
    }

    StruckDaemons daemons{"shm", GetParam().victim};
    std::unique_ptr<control::ControlClient> client;
};

TEST_P(InterruptedContainerCalls, KillAfterCommitLeavesOneEffect) {
    const ContainerShape& shape = GetParam();
    if (shape.through_dpu) ASSERT_TRUE(daemons.dpu.start());
    connect();
    const std::vector<std::string> without{"main"}, with{"main", "one"};
    ASSERT_EQ(labels(), without);
    EXPECT_GE(daemons.strike(point::control_reply, [&] { create("one"); }), 1U);
    EXPECT_EQ(labels(), with);
    EXPECT_GE(daemons.strike(point::control_reply, [&] { destroy("one"); }), 1U);
    EXPECT_EQ(labels(), without);
    run_blocking(*daemons.reactor, [&] { return drop(); });
    if (shape.through_dpu) EXPECT_EQ(daemons.dpu.stop(), 0) << daemons.dpu.log();
    EXPECT_EQ(daemons.engine.stop(), 0) << daemons.engine.log();
}

INSTANTIATE_TEST_SUITE_P(
    Daemons, InterruptedContainerCalls,
    testing::Values(ContainerShape{"Engine", false, StruckDaemons::Victim::engine},
                    ContainerShape{"Dpu", true, StruckDaemons::Victim::dpu},
                    ContainerShape{"DpuAndEngine", true, StruckDaemons::Victim::both}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ros2s::tests
