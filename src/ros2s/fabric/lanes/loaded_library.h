// LoadedLibrary: a network library that is loaded when the first domain is opened, so that a
// program that opens none has nothing of it, and that stays until the process ends.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::fabric::lanes {

struct LoadedLibrary {
    // Any function of it; null where it has none of that name.
    [[nodiscard]] void* find(const char* name) const noexcept;
    template <class Function>
    void look_up(Function*& function, const char* name) {
        function = reinterpret_cast<Function*>(find(name));
        if (function == nullptr && missing == nullptr) missing = name;
    }

    void* handle = nullptr;
    const char* missing = nullptr;  // the first function that it does not have
    std::string path;               // the file that was loaded, without symbolic links
    std::string version{};          // "1.13.1"
};

// For sentences: "the library of UCX", "library of UCX", ": install …".
struct LibraryWords {
    const char *named, *kind, *remedy;
};
// Looked for as the dynamic linker does. Errors: unsupported.
[[nodiscard]] Result<> open_library(const char* name, const LibraryWords& words,
                                    LoadedLibrary& library, Report& report);
// All functions were found. Errors: unsupported.
[[nodiscard]] Result<> check_functions(const char* name, const LibraryWords& words,
                                       const LoadedLibrary& library, Report& report);

// The one of this process: the first call loads it, from any thread, and its outcome is that of all
// later ones.
template <auto load>
[[nodiscard]] auto load_once(const char* name, Report& report) {
    struct Outcome {
        Report report{};
        decltype(load(nullptr, report)) library;
        explicit Outcome(const char* name) : library(load(name, report)) {}
    };
    static const Outcome outcome(name);
    using Library = typename decltype(outcome.library)::value_type;
    if (outcome.library) return Result<const Library*>(&*outcome.library);
    return Result<const Library*>(report.fail(outcome.library.error(), outcome.report.text()));
}

}  // namespace ros2s::fabric::lanes
