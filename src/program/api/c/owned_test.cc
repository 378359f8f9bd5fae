// detail::Owned of ros2store.hpp: a handle is closed once, also if closing it fails.
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "ros2store/ros2store.hpp"

namespace ros2s::api::c {
namespace {

// Stands for the library: answers the calls that close a handle with `results`, then with 0.
struct Library {
    static inline size_t closed = 0;
    static inline std::vector<int> results;

    template <class Handle>
    static int close(Handle*) {
        return closed < results.size() ? results[closed++] : (++closed, 0);
    }
};
template <class Handle>
using Owned = ros2store::detail::Owned<Handle, Library::close<Handle>>;

class OwnedHandles : public testing::Test {
  protected:
    static void answer(std::vector<int> results) {
        Library::closed = 0;
        Library::results = std::move(results);
    }
    template <class Handle>
    Owned<Handle> make() {
        const auto released = [this](ros2s_fs*) { ++file_systems_released_; };
        return {ros2store::detail::SharedFs(reinterpret_cast<ros2s_fs*>(&memory_), released),
                reinterpret_cast<Handle*>(&memory_)};
    }
    template <class Handle>
    static int error_of_close(Owned<Handle>& handle) {
        try {
            handle.close();
        } catch (const ros2store::Error& error) {
            return error.code().value();
        }
        return 0;
    }

    int memory_ = 0;  // what the handles point to
    int file_systems_released_ = 0;
};

TEST_F(OwnedHandles, FileWithFailedCloseIsNotClosedAgain) {
    for (const int error : {EIO, EDQUOT, ENOTCONN, EBADF}) {
        answer({-error});
        {
            auto file = make<ros2s_file>();
            EXPECT_EQ(error_of_close(file), error);
            EXPECT_EQ(file.get(), nullptr);
            EXPECT_EQ(error_of_close(file), 0);
        }
        EXPECT_EQ(Library::closed, 1U);
        EXPECT_EQ(std::exchange(file_systems_released_, 0), 1);
    }
}

TEST_F(OwnedHandles, BusyFileStaysOpen) {
    answer({-EBUSY, -EBUSY});
    auto file = make<ros2s_file>();
    EXPECT_EQ(error_of_close(file), EBUSY);
    EXPECT_EQ(error_of_close(file), EBUSY);
    EXPECT_NE(file.get(), nullptr);
    EXPECT_EQ(file_systems_released_, 0);
    EXPECT_EQ(error_of_close(file), 0);
    EXPECT_EQ(file.get(), nullptr);
    EXPECT_EQ(Library::closed, 3U);
    EXPECT_EQ(file_systems_released_, 1);
}

TEST_F(OwnedHandles, OtherHandlesAreClosedDespiteErrors) {
    answer({-EBUSY});
    {
        auto directory = make<ros2s_dir>();
        EXPECT_EQ(error_of_close(directory), EBUSY);
    }
    EXPECT_EQ(Library::closed, 1U);
    EXPECT_EQ(file_systems_released_, 1);
}

}  // namespace
}  // namespace ros2s::api::c
