// LoadedLibrary: a library that is loaded when it is first needed, and stays until the process
// ends. A program that does not need it does not load it.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s {

struct LoadedLibrary {
    // A function of the library; null if it has none of that name.
    [[nodiscard]] void* find(const char* name) const noexcept;
    // Looks for nothing more after a function that it does not have.
    template <class Function>
    void look_up(Function*& function, const char* name) {
        if (missing != nullptr) return;
        function = reinterpret_cast<Function*>(find(name));
        if (function == nullptr) missing = name;
    }

    void* handle = nullptr;
    const char* missing = nullptr;  // the first function that it does not have
    std::string path;               // the file that was loaded, without symbolic links
    std::string version{};          // "1.13.1"
};

// For messages to people: "the library of UCX", ": install …", "library of UCX". Only
// check_functions() uses the kind.
struct LibraryWords {
    std::string_view named, remedy, kind{};
};
// The error of the last call that failed: dlopen() or find(). Errors: unsupported.
[[nodiscard]] std::unexpected<Error> fail_to_load(const LibraryWords& words, Report& report);
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

}  // namespace ros2s
