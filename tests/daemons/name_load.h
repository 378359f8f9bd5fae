// A load of names: each is created exclusively, renamed and removed. An operation that is done
// twice fails. If one is not done, the next one fails.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "load.h"

namespace ros2s::tests {

// Checks after end() that the root is unchanged.
class NameLoad final : public Load {
  public:
    // `prefix`: the prefix of its names. Loads in one container need different prefixes.
    NameLoad(OsReactor& reactor, fs::FileSystem& files, std::string prefix = "name")
        : Load(reactor, files, workers), prefix_(std::move(prefix)) {}

  private:
    static constexpr uint32_t workers = 4;

    Task<> work(uint32_t worker) override {
        for (uint32_t round = 0; !stop_; ++round) {
            const std::string name = fmt::format("{}-{}-{}", prefix_, worker, round);
            if (!co_await one(name, name + "-moved")) co_return;
            ++done_;
        }
    }
    Task<bool> one(std::string name, std::string moved) {
        const auto made = co_await files_.create(call_, fs::root_node, name, 0600,
                                                 {.write = true, .exclusive = true}, {});
        EXPECT_TRUE(made) << name << ": " << describe(made.error());
        if (!made) co_return false;
        EXPECT_TRUE(co_await files_.close(call_, made->handle));
        const auto renamed =
            co_await files_.rename(call_, fs::root_node, name, fs::root_node, moved, {});
        EXPECT_TRUE(renamed) << name << ": " << describe(renamed.error());
        const auto removed = co_await files_.unlink(call_, fs::root_node, moved);
        EXPECT_TRUE(removed) << moved << ": " << describe(removed.error());
        co_return renamed&& removed;
    }

    const Call call_;
    const std::string prefix_;
};

}  // namespace ros2s::tests
