// Files and names of every kind, in a separate directory for each client.
#include "ros2s/sim/offload/directory_work.h"
#include "work_kinds.h"

namespace ros2s {
namespace {

using namespace object;

constexpr int steps = 40;

Task<> work(Part& part) {
    sim::DirectoryWork directory(part.world, part.files, part.files,
                                 fmt::format("of-{}", part.number), part.random);
    Result<> done = co_await directory.begin();
    for (int i = 0; i < steps && done; ++i) done = co_await directory.step();
    if (done) done = co_await directory.finish();
    if (!done) co_return part.problem("{}: {}", directory.what(), describe(done.error()));
    for (const std::string& text : co_await directory.compare(part.files)) {
        part.problem("{}", text);
    }
}
Task<> judge_nothing(fs::FileSystem&, ObjectStore&, ContainerId, std::vector<std::string>&) {
    co_return;
}

}  // namespace

const Kind mixed{make_nothing, work, judge_nothing};

}  // namespace ros2s
