// Capabilities, chains of them, and the keys that sign them. Each attack changes one thing in a
// valid chain.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "ros2s/base/durable_file.h"
#include "ros2s/capability/chain.h"
#include "ros2s/capability/issuer.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::capability {
namespace {

using namespace std::chrono_literals;
using rights::Right;
using testing::HasSubstr;

Seed seed_of(uint8_t byte) {
    Seed seed;
    seed.fill(byte);
    return seed;
}
Uuid uuid_of(uint8_t byte) {
    Uuid uuid;
    uuid.bytes.fill(byte);
    return uuid;
}
WallTime at(Duration since_1970) { return WallTime(since_1970); }

// An engine, a tenant's program and a DPU, and what each signs.
struct Parties {
    SigningKey engine{seed_of(1)}, program{seed_of(2)}, dpu{seed_of(3)}, stranger{seed_of(9)};
    Capability first{.depth = 1,
                     .use = {.rights = {Right::read, Right::write}, .container = {"run-*"}},
                     .tenant = "alice",
                     .id = uuid_of(0x11),
                     .audience = uuid_of(0x22),
                     .issuer = engine.shown(),
                     .holder = program.shown(),
                     .not_before = at(1000s),
                     .expires = at(1310s),
                     .generation = 7};
    Capability second{.depth = 2,
                      .use = {.rights = Right::write, .container = {"run-1"}},
                      .tenant = "alice",
                      .id = uuid_of(0x33),
                      .audience = uuid_of(0x22),
                      .issuer = program.shown(),
                      .holder = dpu.shown(),
                      .not_before = at(1000s),
                      .expires = at(1310s),
                      .generation = 7};
    Expected expected{.audience = uuid_of(0x22), .issuers = {engine.shown()}, .now = at(1100s)};

    [[nodiscard]] Chain chain() const {
        std::string root = sign(first, engine);
        Capability narrower = second;
        narrower.parent = hash_of(root);
        return {root, sign(narrower, program)};
    }
    // The reason why it is invalid; empty: it is valid.
    [[nodiscard]] std::string wrong(const Chain& chain) const {
        std::string why;
        const auto verified = verify(chain, expected, why);
        EXPECT_EQ(verified.has_value(), why.empty());
        return why;
    }
};

// Where a fuzzer begins, too.
constexpr std::string_view golden =
#include "capability_capability_fuzz_seeds.txt"
    ;

TEST(Capability, GoldenBytesMatch) {
    const Parties all;
    const std::string bytes = sign(all.first, all.engine);
    const auto back = decode(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, all.first);
    CapabilityRequest wanted{.use = all.first.use, .audience = uuid_of(5)};
    wanted.holder.fill(7);
    const auto request = decode_request(encode(wanted));
    ASSERT_TRUE(request);
    EXPECT_EQ(*request, wanted);
    std::string lines = "\n";
    for (const std::string& line : {bytes, encode(wanted)}) {
        for (const char c : line) lines += fmt::format("{:02x}", static_cast<unsigned char>(c));
        lines += '\n';
    }
    EXPECT_EQ(lines, golden);
}

TEST(Capability, OtherEncodingsAreRefused) {
    const Parties all;
    const std::string bytes = sign(all.first, all.engine);
    const auto refused = [&](size_t offset, uint8_t value) {
        std::string changed = bytes;
        changed[offset] = static_cast<char>(value);
        return !decode(changed);
    };
    EXPECT_TRUE(refused(0, 'X'));
    EXPECT_TRUE(refused(4, 0));  // version
    std::string later = bytes;
    later[4] = 2;
    EXPECT_EQ(decode(later).error(), (Error{Code::bad_version, 0, 2}));
    EXPECT_TRUE(refused(6, 0));  // depth
    EXPECT_TRUE(refused(6, 3));
    EXPECT_TRUE(refused(7, 16));   // rights
    EXPECT_TRUE(refused(8, 2));    // directories
    EXPECT_TRUE(refused(9, 200));  // lengths
    EXPECT_TRUE(refused(10, 255));
    EXPECT_TRUE(refused(11, 1));  // reserved
    EXPECT_TRUE(refused(164, '/'));
    for (size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << size;
    }
    EXPECT_FALSE(decode(bytes + "x"));
    EXPECT_FALSE(decode(bytes + std::string(capability_bytes_max, 'x')));
    EXPECT_FALSE(decode_request(std::string(100, '\0')));
}

TEST(Capability, UseCoversOnlyLesserUse) {
    const Use all{.rights = rights::every_right, .directories = false, .container = {"*"}};
    const Use one{.rights = Right::write, .directories = false, .container = {"a-1"}};
    const Use parts{.rights = Right::write, .directories = true, .container = {"a-1"}};
    EXPECT_TRUE(all.covers(one) && one.covers(one) && one.covers(parts));
    EXPECT_FALSE(one.covers(all) || parts.covers(one));
    EXPECT_TRUE(one.covers({.rights = Right::read, .directories = false, .container = {"a-1"}}));
    EXPECT_FALSE(
        one.covers({.rights = Right::destroy, .directories = false, .container = {"a-1"}}));
    const Use some{.rights = Right::read, .directories = false, .container = {"a-*"}};
    EXPECT_TRUE(some.covers({.rights = Right::read, .directories = false, .container = {"a-b*"}}));
    EXPECT_FALSE(some.covers({.rights = Right::read, .directories = false, .container = {"a*"}}));
    EXPECT_FALSE(some.covers({.rights = Right::read, .directories = false, .container = {"*"}}));
    // A label is not a pattern.
    EXPECT_FALSE(one.covers({.rights = Right::read, .directories = false, .container = {"a-1*"}}));
}

TEST(CapabilityChain, TwoLinksGiveTheLastHolder) {
    const Parties all;
    std::string why;
    const auto last = verify(all.chain(), all.expected, why);
    ASSERT_TRUE(last) << why;
    EXPECT_EQ(last->holder, all.dpu.shown());
    EXPECT_EQ(last->use, all.second.use);
    EXPECT_EQ(all.wrong({all.chain().front()}), "");
}

TEST(CapabilityChain, FlippedBitIsRefused) {
    const Parties all;
    const Chain good = all.chain();
    for (size_t link = 0; link < good.size(); ++link) {
        for (size_t bit = 0; bit < good[link].size() * 8; ++bit) {
            Chain bad = good;
            bad[link][bit / 8] = static_cast<char>(bad[link][bit / 8] ^ (1 << (bit % 8)));
            ASSERT_NE(all.wrong(bad), "") << link << " " << bit;
        }
    }
}

struct Attack {
    const char* name;
    std::function<void(Parties&)> change;
    const char* why;
};

TEST(CapabilityChain, ForgedChainIsRefused) {
    const Attack attacks[] = {
        {"more rights", [](Parties& p) { p.second.use.rights.add(Right::create); }, "more rights"},
        {"another container", [](Parties& p) { p.second.use.container = {"main"}; }, "more rights"},
        {"all containers", [](Parties& p) { p.second.use.container = {"*"}; }, "more rights"},
        {"from directories to all", [](Parties& p) { p.first.use.directories = true; },
         "more rights"},
        {"a later end", [](Parties& p) { p.second.expires += 1s; }, "outside the time"},
        {"an earlier begin", [](Parties& p) { p.second.not_before -= 1s; }, "outside the time"},
        {"another tenant", [](Parties& p) { p.second.tenant = "bob"; }, "another tenant"},
        {"another generation", [](Parties& p) { p.second.generation = 8; }, "another generation"},
        {"another pool", [](Parties& p) { p.second.audience = uuid_of(7); }, "another pool"},
        {"both for another pool",
         [](Parties& p) { p.first.audience = p.second.audience = uuid_of(7); }, "another pool"},
        {"expired", [](Parties& p) { p.expected.now = at(1310s); }, "expired"},
        {"of the future", [](Parties& p) { p.expected.now = at(999s); }, "not valid yet"},
        {"only the second expired", [](Parties& p) { p.second.expires = at(1050s); }, "expired"},
        {"an issuer nobody knows", [](Parties& p) { p.expected.issuers = {p.stranger.shown()}; },
         "did not issue it"},
        {"a year", [](Parties& p) { p.first.expires = p.second.expires = at(8760h); }, "too long"},
        {"a second one by a stranger", [](Parties& p) { p.second.issuer = p.stranger.shown(); },
         "did not sign it"},
    };
    for (const Attack& attack : attacks) {
        Parties all;
        attack.change(all);
        EXPECT_THAT(all.wrong(all.chain()), HasSubstr(attack.why)) << attack.name;
    }
}

TEST(CapabilityChain, OtherLinksAreRefused) {
    Parties all;
    const Chain good = all.chain();
    EXPECT_THAT(all.wrong({}), HasSubstr("one or two"));
    // Truncated: the link that the tenant signed is not valid alone.
    EXPECT_THAT(all.wrong({good[1]}), HasSubstr("not a capability"));
    EXPECT_THAT(all.wrong({good[1], good[0]}), HasSubstr("not a capability"));
    EXPECT_THAT(all.wrong({good[0], good[0]}), HasSubstr("not a capability"));
    // Extended by the DPU: a third link is refused, and so is one that replaces the second, because
    // the tenant's program did not sign it.
    Capability third = all.second;
    third.issuer = all.dpu.shown();
    third.holder = all.stranger.shown();
    third.parent = hash_of(good[1]);
    const std::string extension = sign(third, all.dpu);
    EXPECT_THAT(all.wrong({good[0], good[1], extension}), HasSubstr("one or two"));
    EXPECT_THAT(all.wrong({good[0], extension}), HasSubstr("did not sign it"));
    // A root of one's own.
    Parties own;
    own.first.issuer = own.stranger.shown();
    const std::string root = sign(own.first, own.stranger);
    EXPECT_THAT(own.wrong({root}), HasSubstr("did not issue it"));
    // The engine's name with another key.
    EXPECT_THAT(all.wrong({sign(all.first, all.stranger)}), HasSubstr("signature"));
    // The second link of another chain of the same program.
    Parties later;
    later.first.id = uuid_of(0x44);
    EXPECT_THAT(all.wrong({sign(later.first, later.engine), good[1]}),
                HasSubstr("narrows another"));
    EXPECT_THAT(all.wrong({good[0], std::string(1 << 20, 'x')}), HasSubstr("not a capability"));
}

TEST(CapabilityChain, ProofIsValidForOneSession) {
    const Parties all;
    const std::string nonce(nonce_bytes, 'n'), other(nonce_bytes, 'o');
    const std::string proof = all.dpu.sign(proof_message(nonce, 5, "shm", all.chain()));
    const auto proves = [&](const std::string& message, const SigningKey& key) {
        return is_signed_by(key.shown(), message, proof);
    };
    EXPECT_TRUE(proves(proof_message(nonce, 5, "shm", all.chain()), all.dpu));
    EXPECT_FALSE(proves(proof_message(other, 5, "shm", all.chain()), all.dpu));
    EXPECT_FALSE(proves(proof_message(nonce, 6, "shm", all.chain()), all.dpu));
    EXPECT_FALSE(proves(proof_message(nonce, 5, "tls", all.chain()), all.dpu));
    EXPECT_FALSE(proves(proof_message(nonce, 5, "shm", {all.chain()[0]}), all.dpu));
    EXPECT_FALSE(proves(proof_message(nonce, 5, "shm", all.chain()), all.program));
    EXPECT_FALSE(is_signed_by(all.dpu.shown(), proof_message(nonce, 5, "shm", all.chain()), ""));
    // A signature for one purpose is not valid for another.
    EXPECT_FALSE(
        proves(request_message(proof_message(nonce, 5, "shm", all.chain()), "pool"), all.dpu));
}

class CapabilityKeys : public testing::Test {
  protected:
    CapabilityKeys() {
        char name[] = "/tmp/ros2s-capability-XXXXXX";
        directory = ::mkdtemp(name);
    }
    ~CapabilityKeys() override { std::filesystem::remove_all(directory); }
    std::unique_ptr<Issuer> open() {
        std::unique_ptr<Issuer> issuer;
        world.run(open_into(*this, issuer));
        return issuer;
    }
    static Task<> open_into(CapabilityKeys& self, std::unique_ptr<Issuer>& issuer) {
        auto opened =
            co_await Issuer::open({.reactor = self.world.core(), .blocking = self.world.blocking()},
                                  self.file(), self.report);
        if (opened) issuer = std::move(*opened);
    }
    static Task<> rotate(CapabilityKeys& self, Issuer& issuer) {
        EXPECT_TRUE(co_await issuer.rotate(self.report)) << self.report.text();
    }
    static Task<> pass(CapabilityKeys& self, Duration time) {
        (void)co_await sleep_for(self.world.core(), time);
    }
    [[nodiscard]] std::string file() const { return directory + "/keys"; }
    sim::World world{1};
    std::string directory;
    Report report;
};

TEST_F(CapabilityKeys, KeyFileIsPrivate) {
    const auto issuer = open();
    ASSERT_TRUE(issuer) << report.text();
    using std::filesystem::perms;
    EXPECT_EQ(std::filesystem::status(file()).permissions(),
              perms::owner_read | perms::owner_write);
    const auto again = open();
    ASSERT_TRUE(again) << report.text();
    EXPECT_EQ(again->keys(), issuer->keys());
    std::filesystem::permissions(file(), perms::group_read, std::filesystem::perm_options::add);
    EXPECT_FALSE(open());
    EXPECT_THAT(report.text(), HasSubstr("is a secret that others can read (mode 0640)"));
    for (const char* text : {"", "x\n", "ros2store capability keys, version 1\n",
                             "ros2store capability keys, version 1\n00 1\n"}) {
        ASSERT_TRUE(replace_file(file(), text, 0600));
        EXPECT_FALSE(open()) << text;
    }
}

TEST_F(CapabilityKeys, OldKeyVerifiesUntilItsCapabilitiesExpire) {
    const auto issuer = open();
    ASSERT_TRUE(issuer) << report.text();
    const auto expected = [&] {
        return Expected{
            .audience = uuid_of(1), .issuers = issuer->keys(), .now = world.core().wall_time()};
    };
    const Capability wanted{
        .use = {.rights = Right::read, .container = {"c"}}, .tenant = "t", .audience = uuid_of(1)};
    const std::string before = issuer->issue(wanted, 10min);
    world.run(rotate(*this, *issuer));
    const std::string after = issuer->issue(wanted, 10min);
    std::string why;
    EXPECT_TRUE(verify({before}, expected(), why)) << why;
    EXPECT_TRUE(verify({after}, expected(), why)) << why;
    EXPECT_EQ(issuer->keys().size(), 2U);
    EXPECT_EQ(open()->keys(), issuer->keys());
    world.run(pass(*this, 10min));
    EXPECT_FALSE(verify({before}, expected(), why));
    world.run(pass(*this, life_max));
    EXPECT_EQ(issuer->keys().size(), 1U);
}

}  // namespace
}  // namespace ros2s::capability
