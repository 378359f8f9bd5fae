#include "store_stack.h"

#include "ros2s/object/memory_store.h"

namespace ros2s::api {

StoreStack::~StoreStack() { ROS2S_CHECK(store_ == nullptr); }

Task<Result<>> StoreStack::format(Environment, PoolDirectory, Report&) { co_return {}; }

Task<Result<std::unique_ptr<StoreStack>>> StoreStack::open(Environment environment, PoolDirectory,
                                                           Report&) {
    std::unique_ptr<StoreStack> stack(new StoreStack);
    stack->store_ = std::make_unique<object::MemoryStore>(environment.reactor);
    co_return std::move(stack);
}

Task<Result<>> StoreStack::close() {
    store_.reset();
    co_return {};
}

void StoreStack::visit_metrics(const MetricVisitor&) const {}

}  // namespace ros2s::api
