// TraceEvents: traced requests as a trace file: the JSON object of the Trace Event Format (complete
// events, "ph": "X"), which Perfetto (ui.perfetto.dev) and chrome://tracing open. One process each
// for the program that made the requests and for every server on the way, in which the requests are
// threads. docs/formats/why.md.
//
// A plain object; one thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/json.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

[[nodiscard]] double microseconds(Duration duration);

class TraceEvents {
  public:
    // `home`: the name of the process in which requests begin.
    explicit TraceEvents(std::string_view home) : home_(home) {}

    // Later steps belong to this request.
    void begin_request(std::string_view title);
    // In the order of their beginnings, each after its parent: the last step before it with a
    // smaller depth. A step whose name ends in ".serve" begins a server's process.
    void add(std::string_view name, int depth, Duration begin, Duration takes);
    [[nodiscard]] std::string text();

  private:
    struct Within {
        int depth;
        size_t process;
    };
    void end_request();
    // Numbered from 1 in the order of appearance, which is the order of the path.
    size_t process(std::string_view name);

    const std::string home_;
    std::vector<Json> events_;
    std::vector<std::string> processes_;
    std::string title_;         // of the request
    std::vector<Within> open_;  // the servers' steps above the next one
    int thread_ = 0;
};

}  // namespace ros2s
