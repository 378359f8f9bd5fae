# The compiler and the flags that every target shares.
#
# GCC 12 (Debian 12's default) miscompiles valid coroutine code: a temporary of a capturing lambda
# in an expression with co_await is destroyed twice. Clang 19 with libstdc++ 12 does not.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} miscompiles coroutines. Configure with clang++-19: "
    "`./dev build` does, or pass -DCMAKE_CXX_COMPILER=clang++-19.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# -O2 and -g1: line numbers in profiles and stack traces without the link time of full debug info.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

# Installed files are linked with their final run path (BUILD_WITH_INSTALL_RPATH). If CMake changes a
# run path while it installs, the original is padded with colons, and an empty element of a run path
# means the current directory. tests/dev/runpaths_test.sh checks this.

find_program(ROS2S_CCACHE ccache)
if(ROS2S_CCACHE)
  # base_dir lets checkouts in different folders share one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=time_macros ${ROS2S_CCACHE})
endif()

find_program(ROS2S_LLD NAMES ld.lld-19 ld.lld)
if(ROS2S_LLD)
  add_link_options(--ld-path=${ROS2S_LLD})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wno-missing-field-initializers
                    -Wnon-virtual-dtor -Wold-style-cast -Wshadow-field -fno-omit-frame-pointer)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # SSE 4.2 has the CRC32C instruction; wider code is chosen at run time (ISA-L).
  add_compile_options(-msse4.2)
endif()

set(ROS2S_SANITIZE "" CACHE STRING "address,undefined or thread; empty for none")
if(ROS2S_SANITIZE)
  # Not vptr: it needs a C++ runtime in C programs that load the library, and says that an object is
  # none where it lacks a descriptor to look at memory. Not object-size: it takes a quarter of the build to
  # find some of what AddressSanitizer finds.
  add_compile_options(-fsanitize=${ROS2S_SANITIZE} -fno-sanitize=vptr,object-size
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ROS2S_SANITIZE})
  # AddressSanitizer's checks are calls, not inline code: the build takes a quarter less processor time, tests that
  # compute a sixth more.
  if(ROS2S_SANITIZE MATCHES "address")
    add_compile_options(-fsanitize-address-outline-instrumentation)
  endif()
  add_compile_definitions(ROS2S_SANITIZED=1)
  # For tests: inlining takes more than half of their compilation, and they spend their time in the product.
  set(ROS2S_TEST_OPTIONS "SHELL:-mllvm -inline-threshold=50")
endif()
option(ROS2S_FUZZ "build the libFuzzer targets" OFF)
if(ROS2S_FUZZ)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
