#include "ros2s/runtime/stack.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/os_reactor.h"

namespace ros2s {
namespace {

using Events = std::vector<std::string>;

struct Noted {
    Events& events;
    std::string name;
    ~Noted() { events.push_back(name + " is gone"); }
};

// One per way to be closed.
struct Plain {
    Noted noted;
};
struct Closed : Noted {
    Task<> close() {
        events.push_back(name + " closes");
        co_return;
    }
    void visit_metrics(const MetricVisitor& visit) const { visit(name, "", 1); }
};
struct Failing : Noted {
    Task<Result<>> close() {
        events.push_back(name + " fails to close");
        co_return fail(Code::io);
    }
};
struct Files : Noted {
    // Of one file: not the way to be closed.
    Task<> close(int) { co_return; }
    Task<> close_all() {
        events.push_back(name + " closes all");
        co_return;
    }
};
struct Composed {
    Stack stack;
    Task<Result<>> close() { return stack.close(); }
    void visit_metrics(const MetricVisitor& visit) const { stack.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack.names(); }
};

template <class T>
std::unique_ptr<T> noted(Events& events, std::string name) {
    return std::make_unique<T>(T{{events, std::move(name)}});
}

class StackTest : public testing::Test {
  protected:
    Events events_;
    Report report_;
    std::unique_ptr<OsReactor> reactor_ = *OsReactor::create({}, report_);
};

TEST_F(StackTest, LayersCloseFromTheTopDown) {
    Stack stack;
    stack.push("a", noted<Closed>(events_, "a"));
    stack.push("b", noted<Plain>(events_, "b"));
    stack.push("c", noted<Files>(events_, "c"));
    events_.clear();
    EXPECT_TRUE(reactor_->run(stack.close()));
    EXPECT_EQ(events_, (Events{"c closes all", "c is gone", "b is gone", "a closes", "a is gone"}));
    EXPECT_TRUE(reactor_->run(stack.close())) << "nothing is left to close";
}

TEST_F(StackTest, FailedCloseIsReturnedAndTheRestCloses) {
    Stack stack;
    stack.push("a", noted<Closed>(events_, "a"));
    stack.push("b", noted<Failing>(events_, "b"));
    stack.push("c", noted<Closed>(events_, "c"));
    events_.clear();
    const auto closed = reactor_->run(stack.close());
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Code::io);
    EXPECT_EQ(events_, (Events{"c closes", "c is gone", "b fails to close", "b is gone", "a closes",
                               "a is gone"}));
}

TEST_F(StackTest, FailedOpenAddsNoLayer) {
    Stack stack;
    const auto pushed = stack.push("a", Result<std::unique_ptr<Closed>>(fail(Code::busy)));
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Code::busy);
    EXPECT_EQ(stack.names(), "");
}

TEST_F(StackTest, SingleLayerIsClosedAlone) {
    Stack stack;
    stack.push("a", noted<Closed>(events_, "a"));
    auto* const b = stack.push("b", noted<Closed>(events_, "b"));
    stack.push("c", noted<Closed>(events_, "c"));
    events_.clear();
    EXPECT_TRUE(reactor_->run(stack.close(b)));
    EXPECT_EQ(events_, (Events{"b closes", "b is gone"}));
    EXPECT_EQ(stack.names(), "c → a");
    EXPECT_TRUE(reactor_->run(stack.close()));
}

TEST_F(StackTest, NamesAndCountersListAllLayersTopDown) {
    Stack stack;
    stack.push("a", noted<Closed>(events_, "a"));
    auto* const composed = stack.push("composed", std::make_unique<Composed>());
    composed->stack.push("b", noted<Plain>(events_, "b"));
    composed->stack.push("c", noted<Closed>(events_, "c"));
    stack.push("d", noted<Closed>(events_, "d"));
    EXPECT_EQ(stack.names(), "d → c → b → a");
    std::string counters;
    stack.visit_metrics(
        [&](std::string_view name, std::string_view, uint64_t) { counters += name; });
    EXPECT_EQ(counters, "dca");
    EXPECT_TRUE(reactor_->run(stack.close()));
}

}  // namespace
}  // namespace ros2s
