#include "loaded_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace ros2s::fabric::lanes {

void* LoadedLibrary::find(const char* name) const noexcept { return dlsym(handle, name); }

Result<> open_library(const char* name, const LibraryWords& words, LoadedLibrary& library,
                      Report& report) {
    library.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle == nullptr) {
        const char* reason = dlerror();
        return report.fail(Code::unsupported, std::string(words.named) + " cannot be loaded (" +
                                                  (reason != nullptr ? reason : name) + ")" +
                                                  words.remedy);
    }
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
    return report.fail(Code::unsupported, std::string(name) + " is no " + words.kind +
                                              " that fits: it has no " + library.missing +
                                              words.remedy);
}

}  // namespace ros2s::fabric::lanes
