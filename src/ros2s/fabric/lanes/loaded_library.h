// LoadedLibrary: a network library that is loaded when the first domain is opened, and stays until
// the process ends. A program that opens no domain does not load it.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::fabric::lanes {

struct LoadedLibrary {
    // A function of the library; null if it has none of that name.
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

// For messages to people: "the library of UCX", "library of UCX", ": install …".
struct LibraryWords {
    const char *named, *kind, *remedy;
};
// Searches as the dynamic linker does. Errors: unsupported.
[[nodiscard]] Result<> open_library(const char* name, const LibraryWords& words,
                                    LoadedLibrary& library, Report& report);
// Checks that all functions were found. Errors: unsupported.
[[nodiscard]] Result<> check_functions(const char* name, const LibraryWords& words,
                                       const LoadedLibrary& library, Report& report);

// The library of this process. The first call loads it, from any thread. All later calls have the
// same result.
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
