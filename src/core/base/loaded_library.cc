#include "ros2s/base/loaded_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace ros2s {

void* LoadedLibrary::find(const char* name) const noexcept { return dlsym(handle, name); }

std::unexpected<Error> fail_to_load(const LibraryWords& words, Report& report) {
    const char* const reason = dlerror();
    return report.fail(Code::unsupported, "{} cannot be loaded ({}){}", words.named,
                       reason != nullptr ? reason : "no reason is known", words.remedy);
}

Result<> open_library(const char* name, const LibraryWords& words, LoadedLibrary& library,
                      Report& report) {
    library.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == nullptr) return fail_to_load(words, report);
    const link_map* map = nullptr;
    std::error_code none;
    if (dlinfo(library.handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0) {
        library.path = std::filesystem::canonical(map->l_name, none).string();
    }
    return {};
}

Result<> check_functions(const char* name, const LibraryWords& words, const LoadedLibrary& library,
                         Report& report) {
    if (library.missing == nullptr) return {};
    return report.fail(Code::unsupported, "{} is no {} that fits: it has no {}{}", name, words.kind,
                       library.missing, words.remedy);
}

}  // namespace ros2s
