#include "ros2s/daemon/tenant_sources.h"

namespace ros2s::daemon {

void TenantSources::add(const std::string& subject, std::vector<exporter::Source> sources) {
    const bool has_label = tenants_++ < labels_max;
    for (exporter::Source& source : sources) {
        if (has_label) {
            source.labels.emplace_back("tenant", subject);
            labelled_.push_back(std::move(source));
            continue;
        }
        source.list([this](std::string_view name, std::string_view help, uint64_t value) {
            auto& [text, sum] = others_[std::string(name)];
            text = help;
            sum += value;
        });
        if (!source.times) continue;
        source.times([this](std::string_view name, std::string_view help,
                            std::string_view /*operation*/, const HistogramReading& times) {
            const auto [place, is_first] = times_of_others_.try_emplace(std::string(name));
            auto& [text, sum] = place->second;
            if (is_first) {
                text = help;
                sum = times;
            } else {
                sum.add(times);
            }
        });
    }
}

std::vector<exporter::Source> TenantSources::take() {
    if (!others_.empty()) {
        labelled_.push_back(
            {.labels = {{"tenant", "(others)"}},
             .list =
                 [others = std::move(others_)](const MetricVisitor& visit) {
                     for (const auto& [name, value] : others) {
                         visit(name, value.first, value.second);
                     }
                 },
             .times =
                 [others = std::move(times_of_others_)](const HistogramVisitor& visit) {
                     for (const auto& [name, value] : others) {
                         visit(name, value.first, {}, value.second);
                     }
                 }});
    }
    return std::move(labelled_);
}

}  // namespace ros2s::daemon
