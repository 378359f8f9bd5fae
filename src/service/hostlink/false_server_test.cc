// A host whose server sends false data, or another order of names than before.
#include <array>

#include "names_wire.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

const std::vector<Leased> no_leases;

using fs::Window;

// A server whose bytes do not match its checksum, that lists more entries than it was asked for,
// and whose errors have negative numbers: negated, they would be counts of bytes.
class Liar final : public rpc::Service {
  public:
    static constexpr Error negative{.code = Code::io, .os_errno = -(1 << 30)};
    [[nodiscard]] uint32_t number() const override { return file_service; }
    Task<> serve(rpc::Request& request) override {
        Buffer answer;
        const auto method = static_cast<Method>(request.method());
        if (method == Method::create) {
            const fs::Opened opened{.handle = {1}};
            co_await request.reply(
                rpc::build(answer, with_leases(opened_fields), no_leases, opened));
        } else if (method == Method::close) {
            co_await request.reply({});
        } else if (method == Method::read) {
            const std::array<std::byte, 4> payload{};
            co_await request.reply(encode_moved(answer, {.bytes = 4, .crc = 1}), payload);
        } else if (method == Method::readdir) {
            const std::vector<fs::DirectoryEntry> entries(3);
            co_await request.reply(rpc::build(answer, entries_fields, entries));
        } else if (method == Method::readdir_many) {
            const std::vector<FoundEntry> entries(3);
            co_await request.reply(
                rpc::build(answer, with_leases(found_entries_fields), no_leases, entries));
        } else if (method == Method::lookup_many) {
            const std::vector<FoundName> found{{.result = fail(negative)}};
            co_await request.reply(
                rpc::build(answer, with_leases(found_names_fields), no_leases, found));
        } else if (read_many_++ == 0) {
            const std::vector<fs::ReadManyItem> items{{.bytes = 4, .size = 4}};
            const std::array<std::byte, 4> payload{};
            const uint32_t crcs[] = {1};
            co_await request.reply(encode_read_answers(answer, items, crcs), payload);
        } else {
            const std::vector<fs::ReadManyItem> items{{.status = fail(negative)}};
            const uint32_t crcs[] = {0};
            co_await request.reply(encode_read_answers(answer, items, crcs));
        }
    }

  private:
    int read_many_ = 0;
};
class OpenGate final : public rpc::Gate {
  public:
    Result<rpc::Guest> admit(const rpc::HelloBody&, const fabric::Peer&) override {
        return rpc::Guest{.session = 1};
    }
    void left(const rpc::Guest&) override {}
};

// The host uses a link to another server than the stage's.
template <class Use>
Task<> with_server(Stage& stage, rpc::Service& service, session::MountLocator& locator, Use use) {
    OpenGate gate;
    Reactor& core = stage.world.core();
    const auto domain = stage.network.open_domain(core, "other");
    auto server =
        co_await rpc::Server::listen(core, *domain, "other", service, gate, {}, stage.dpu.report);
    EXPECT_TRUE(server);
    auto channel =
        co_await rpc::Channel::open(core, *stage.host.domain, "other", stage.host.tickets,
                                    {.service = file_service}, stage.dpu.report);
    EXPECT_TRUE(channel);
    {
        LinkClient link(core, **channel, locator, {.client = stage.host.client, .behind = ""});
        co_await use(link);
        co_await link.close_all();
    }
    co_await (*channel)->close();
    co_await (*server)->close();
    co_await domain->close();
}

Task<> believe_nothing(LinkClient& link) {
    const auto opened = co_await link.create({}, fs::root_node, "f", 0644, {.write = true}, {});
    EXPECT_TRUE(opened);
    std::array<std::byte, 4> memory{};
    EXPECT_EQ(co_await link.pread({}, opened->handle, Window::local(Bytes(memory)), 0),
              Result<uint64_t>(fail(Code::corrupt)));
    std::array<fs::ReadManyItem, 1> items{{{.name = "f", .window = Window::local(Bytes(memory))}}};
    EXPECT_TRUE(co_await link.read_many({}, fs::root_node, items));
    EXPECT_EQ(items[0].status, Result<>(fail(Code::corrupt)));
    EXPECT_EQ(items[0].bytes, 0U);
    EXPECT_EQ(co_await link.read_many({}, fs::root_node, items), Result<>(fail(Code::corrupt)));
    const std::string_view name[] = {"f"};
    const auto looked_up = co_await link.lookup_many({}, fs::root_node, name);
    EXPECT_EQ(looked_up.at(0).error(), Error{Code::corrupt});
    const auto listed = co_await link.readdir({}, opened->handle, 0, 2);
    EXPECT_TRUE(!listed && listed.error().code == Code::corrupt);
    const auto found = co_await link.readdir_many({}, fs::root_node, opened->handle, 0, 2);
    EXPECT_TRUE(!found && found.error().code == Code::corrupt);
}
Task<> lied_to(Stage& stage) {
    Liar service;
    co_await with_server(stage, service, *stage.host.locator, believe_nothing);
}
TEST(HostLink, FalseServerReplyIsRefused) { Stage().run(lied_to); }

// ---- a walk whose handle was opened again -----------------------------------------------------

// Lists names in its own order.
class Lister final : public rpc::Service {
  public:
    std::vector<std::string> names;
    [[nodiscard]] uint32_t number() const override { return file_service; }
    Task<> serve(rpc::Request& request) override {
        Buffer answer;
        const auto method = static_cast<Method>(request.method());
        if (method == Method::open) {
            const fs::Opened opened{.handle = {1}};
            co_await request.reply(
                rpc::build(answer, with_leases(opened_fields), no_leases, opened));
        } else if (method == Method::readdir) {
            const auto asked = rpc::read_body<ReaddirBody>(request.body(), readdir_fields);
            EXPECT_TRUE(asked);
            std::vector<fs::DirectoryEntry> entries;
            for (size_t i = asked->cookie; i < names.size() && entries.size() < asked->limit; ++i) {
                entries.push_back({.name = names[i], .type = S_IFREG, .cookie = i + 1});
            }
            co_await request.reply(rpc::build(answer, entries_fields, entries));
        } else if (method == Method::readdir_many) {
            std::vector<FoundEntry> entries;
            for (const std::string& name : names) entries.push_back({.entry = {.name = name}});
            co_await request.reply(
                rpc::build(answer, with_leases(found_entries_fields), no_leases, entries));
        } else if (method == Method::read_link) {
            co_await request.reply(
                rpc::build(answer, with_leases(content_fields), no_leases, names.front()));
        } else {
            co_await request.reply({});
        }
    }
};

// A program that joins such names to a path would leave its directory.
Task<> list_false_names(LinkClient& link, Lister& server) {
    const auto opened = co_await link.open({}, fs::root_node, {});
    EXPECT_TRUE(opened);
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("../../x"),
          std::string("/x"), std::string("a/b"), std::string("a\0b", 3)}) {
        server.names = {"fine", name};
        const auto listed = co_await link.readdir({}, opened->handle, 0, 9);
        EXPECT_TRUE(!listed && listed.error().code == Code::corrupt) << name;
        const auto found = co_await link.readdir_many({}, fs::root_node, opened->handle, 0, 9);
        EXPECT_TRUE(!found && found.error().code == Code::corrupt) << name;
    }
    server.names = {"fine"};
    EXPECT_TRUE(co_await link.readdir({}, opened->handle, 0, 9));
    EXPECT_TRUE(co_await link.readdir_many({}, fs::root_node, opened->handle, 0, 9));
    server.names = {std::string("a\0b", 3)};
    const auto target = co_await link.readlink({}, fs::root_node);
    EXPECT_TRUE(!target && target.error().code == Code::corrupt);
}
Task<> names_that_are_none(Stage& stage) {
    Lister server;
    co_await with_server(stage, server, *stage.host.locator,
                         [&](LinkClient& link) { return list_false_names(link, server); });
}
TEST(HostLink, InvalidNamesFromServerAreRefused) { Stage().run(names_that_are_none); }

// Two names at a time; the mount moves after the first two.
Task<Result<>> walk_over_a_move(LinkClient& link, MovingLocator& locator,
                                std::vector<std::string>& walked) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await link.open({}, fs::root_node, {}));
    walked.clear();
    for (uint64_t cookie = 0;;) {
        ROS2S_CO_TRY_ASSIGN(const auto entries,
                            co_await link.readdir({}, opened.handle, cookie, 2));
        if (entries.empty()) co_return Result<>{};
        for (const fs::DirectoryEntry& entry : entries) walked.push_back(entry.name);
        cookie = entries.back().cookie;
        if (walked.size() == 2) locator.move();
    }
}
Task<> walk_in_two_orders(LinkClient& link, Lister& server, MovingLocator& locator) {
    std::vector<std::string> walked;
    server.names = {"a", "b", "c", "d", "e"};
    EXPECT_TRUE(co_await walk_over_a_move(link, locator, walked));
    EXPECT_EQ(walked, server.names);
    // Which names come after the last one is unknown: some would be left out, others come twice.
    server.names = {"d", "a", "c", "b", "e"};
    EXPECT_EQ(co_await walk_over_a_move(link, locator, walked), Result<>(fail(Code::stale)));
    EXPECT_EQ(walked, (std::vector<std::string>{"d", "a"}));
}
Task<> walks_over_moves(Stage& stage) {
    Lister server;
    MovingLocator locator(stage.host.locator->location());
    co_await with_server(stage, server, locator, [&](LinkClient& link) {
        return walk_in_two_orders(link, server, locator);
    });
}
TEST(HostLink, ListingContinuesAfterMoveOnlyIfSorted) { Stage().run(walks_over_moves); }

}  // namespace
}  // namespace ros2s::hostlink
