// The fixture and macros of the contract's cases.
#pragma once
#include <gtest/gtest.h>

#include <ostream>
#include <span>
#include <vector>

#include "contract.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs::contract {

// Like ASSERT_TRUE, in a coroutine.
#define CO_ASSERT(...)                     \
    do {                                   \
        if (!(__VA_ARGS__)) {              \
            ADD_FAILURE() << #__VA_ARGS__; \
            co_return;                     \
        }                                  \
    } while (false)

#define GTEST_SKIP_CO(why)                                                                      \
    do {                                                                                        \
        ::testing::internal::AssertHelper(::testing::TestPartResult::kSkip, __FILE__, __LINE__, \
                                          "") = ::testing::Message() << why;                    \
        co_return;                                                                              \
    } while (false)

// A result reduced to its code, to compare and print.
struct Outcome {
    std::optional<Code> code;  // none: it succeeded
    friend bool operator==(const Outcome&, const Outcome&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
        return out << (outcome.code ? describe(*outcome.code) : "success");
    }
};
inline constexpr Outcome success{};
template <class T>
Outcome outcome(const Result<T>& result) {
    return result ? Outcome{} : Outcome{result.error().code};
}
inline Outcome is(Code code) { return {code}; }
// EXPECT_FAILS(not_found, co_await …)
#define EXPECT_FAILS(code, ...) EXPECT_EQ(outcome(__VA_ARGS__), is(Code::code))
#define EXPECT_OK(...) EXPECT_EQ(outcome(__VA_ARGS__), success)

// The subject of one case, with the steps that most cases take. A step that fails is a failure of
// the case. Its result is then harmless to use in the next step.
class Fixture {
    Subject& subject_;

  public:
    Fixture(Subject& subject, const Traits& case_traits, uint64_t case_seed)
        : subject_(subject),
          fs(subject.file_system()),
          reactor(subject.world().core()),
          traits(case_traits),
          random(case_seed),
          call{.caller = subject.caller()} {}

    FileSystem& fs;
    Reactor& reactor;
    const Traits& traits;
    Random random;
    Call call;
    Owner owner{.uid = 1000, .gid = 1000};
    static constexpr OpenFlags reading{};
    static constexpr OpenFlags writing{.read = true, .write = true};
    static constexpr OpenFlags appending{.read = true, .write = true, .append = true};

    Task<NodeId> directory(NodeId parent, std::string name, mode_t mode = 0755);
    Task<NodeId> file(NodeId parent, std::string name, std::string contents = {},
                      mode_t mode = 0644);
    Task<NodeId> symlink(NodeId parent, std::string name, std::string target);
    // An open handle. If opening fails, the handle is stale.
    Task<FileHandle> open(NodeId node, OpenFlags flags = writing);
    Task<> close(FileHandle handle);
    // Closes what is still open. The end of each case does it.
    Task<> close_opened();
    Task<> write(FileHandle handle, std::string contents, uint64_t offset);
    // The existing bytes of [offset, offset + length).
    Task<std::string> read(FileHandle handle, uint64_t offset, uint64_t length);
    // The whole contents of a file.
    Task<std::string> contents(NodeId node);
    Task<Attributes> stat(NodeId node);
    // Waits for it a while: a handle may end after close() has returned.
    Task<bool> is_gone(NodeId node);
    Task<NodeId> node_of(NodeId parent, std::string name);  // 0 if there is no such name
    Task<bool> exists(NodeId parent, std::string name);
    // Names in a directory, sorted, read `batch` at a time.
    Task<std::vector<std::string>> names(NodeId node, size_t batch = 100);
    // Lets time pass, so that the next time stamp is later.
    Task<> later() {
        subject_.let_time_pass();
        co_await sleep_for(reactor, std::chrono::milliseconds(20));
    }
    std::string random_bytes(size_t count);

  private:
    std::vector<FileHandle> opened_;
};

struct Case {
    const char* name;
    Task<> (*run)(Fixture&);
};
using Cases = std::span<const Case>;

Cases name_cases();
Cases directory_cases();
Cases rename_cases();
Cases link_cases();
Cases file_cases();
Cases append_cases();
Cases open_cases();
Cases lock_cases();
Cases attribute_cases();
Cases xattr_cases();
Cases acl_cases();
Cases read_many_cases();
Cases walk_cases();
Cases many_cases();
Cases property_cases();

}  // namespace ros2s::fs::contract
