// Stack: the layers of a set-up, each made on those below it. It owns them and closes them from the
// top down: each is closed, then destroyed, before the one below.
//
//     ROS2S_CO_TRY_ASSIGN(auto* remote, stack.push("RemoteStore", co_await RemoteStore::open(…)));
//     stack.push("VerifyingStore", std::make_unique<VerifyingStore>(reactor, *remote, log));
//
// A layer's type determines how it is closed: by close_all(), close(), or its destructor alone. It
// also determines where its counters are: in visit_metrics(), metrics() or counters().
//
// Owned by the composing code; used on one core; close() before destruction.
#pragma once
#include <algorithm>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/task.h"

namespace ros2s {

class Stack {
  public:
    Stack& operator=(Stack&&) = delete;
    ~Stack() { ROS2S_CHECK(layers_.empty()); }

    // Puts `layer` on top. `name` is a literal that people read.
    template <class T>
    T* push(std::string_view name, std::unique_ptr<T> layer) {
        T* const pushed = layer.get();
        layers_.push_back(std::make_unique<Owned<T>>(name, std::move(layer)));
        return pushed;
    }
    // The same for a result. Returns its error if it has one.
    template <class T>
    Result<T*> push(std::string_view name, Result<std::unique_ptr<T>> opened) {
        if (!opened) return fail(opened.error());
        return push(name, std::move(*opened));
    }
    // Closes all layers. Returns the first error of a layer's close(); it closes the others, too.
    Task<Result<>> close() {
        Result<> closed;
        while (!layers_.empty()) {
            const auto last = co_await layers_.back()->close();
            if (closed) closed = last;
            layers_.pop_back();
        }
        co_return closed;
    }
    // Closes one layer. No other layer uses it.
    template <class T>
    Task<Result<>> close(T* layer) {
        const auto is_it = [layer](const auto& each) { return each->address() == layer; };
        const auto found = std::ranges::find_if(layers_, is_it);
        ROS2S_CHECK(found != layers_.end());
        const auto closed = co_await (*found)->close();
        std::erase_if(layers_, is_it);
        co_return closed;
    }
    // From the top down.
    void visit_metrics(const MetricVisitor& visit) const {
        for (auto it = layers_.rbegin(); it != layers_.rend(); ++it) (*it)->visit_metrics(visit);
    }
    // From the top down: "Dfs → CountedStore → EngineStore".
    [[nodiscard]] std::string names() const {
        std::string names;
        for (auto it = layers_.rbegin(); it != layers_.rend(); ++it) {
            names += (names.empty() ? "" : " → ") + (*it)->names();
        }
        return names;
    }

  private:
    struct Layer {
        virtual ~Layer() = default;
        virtual Task<Result<>> close() = 0;
        virtual void visit_metrics(const MetricVisitor& visit) const = 0;
        [[nodiscard]] virtual std::string names() const = 0;
        [[nodiscard]] virtual const void* address() const = 0;
    };
    template <class T>
    struct Owned;

    std::vector<std::unique_ptr<Layer>> layers_;
};

template <class T>
struct Stack::Owned final : Layer {
    Owned(std::string_view name, std::unique_ptr<T> layer) : name(name), layer(std::move(layer)) {}

    Task<Result<>> close() override {
        if constexpr (requires { layer->close_all(); }) {
            co_await layer->close_all();
        } else if constexpr (requires {
                                 { layer->close() } -> std::same_as<Task<Result<>>>;
                             }) {
            co_return co_await layer->close();
        } else if constexpr (requires { layer->close(); }) {
            co_await layer->close();
        }
        co_return Result<>{};
    }
    void visit_metrics(const MetricVisitor& visit) const override {
        if constexpr (requires { layer->visit_metrics(visit); }) {
            layer->visit_metrics(visit);
        } else if constexpr (requires { layer->metrics().visit(visit); }) {
            layer->metrics().visit(visit);
        } else if constexpr (requires { layer->counters().list(visit); }) {
            layer->counters().list(visit);
        }
    }
    // The names of its layers, if the layer is composed itself.
    [[nodiscard]] std::string names() const override {
        if constexpr (requires { layer->layers(); }) {
            return layer->layers();
        } else {
            return std::string(name);
        }
    }
    [[nodiscard]] const void* address() const override { return layer.get(); }

    std::string_view name;
    std::unique_ptr<T> layer;
};

}  // namespace ros2s
