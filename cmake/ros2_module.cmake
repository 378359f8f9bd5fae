# ros2_group(<name>): the modules that follow are in src/<name>.
macro(ros2_group name)
  set(ROS2S_GROUP ${name})
endmacro()

# ros2_module(<path> HEADERS <public headers> [PUBLIC <modules>] [PRIVATE <modules>] [LIBS <libs>]
#             [TEST_MODULES <modules>] [TEST_LIBS <libs>] [TESTS_WAIT])
#
# src/<group>/<path>/*.cc becomes the static library ros2s::<path, slashes as underscores>. Other
# modules can include only HEADERS, as "ros2s/<path>/<header>". These are linked into a view under
# the build tree, and only the view is exported. An upward, private or transitive include therefore
# does not compile. A module's own private headers are included as "header.h".
#
# All *_test.cc become one program <module>_test. Each *_bench.cc becomes a program. Each *_fuzz.cc
# becomes a libFuzzer program of the target `fuzzers` if ROS2S_FUZZ is on.
# What tests alone include is in <path>/test_support/. TESTS_WAIT: its tests mostly wait (ros2_tests).
# PUBLIC modules appear in the public headers, PRIVATE ones only in the .cc files.
function(ros2_module path)
  cmake_parse_arguments(A "TESTS_WAIT" "" "HEADERS;PUBLIC;PRIVATE;LIBS;TEST_MODULES;TEST_LIBS" ${ARGN})
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ros2_module(${path}): unknown arguments ${A_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" name ${path})
  set(dir ${PROJECT_SOURCE_DIR}/src/${ROS2S_GROUP}/${path})
  if(NOT IS_DIRECTORY ${dir})  # a group that is one module
    set(dir ${PROJECT_SOURCE_DIR}/src/${path})
  endif()
  file(RELATIVE_PATH place ${PROJECT_SOURCE_DIR} ${dir})
  set(view ${PROJECT_BINARY_DIR}/include/${name})

  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")

  file(REMOVE_RECURSE ${view})
  set(faces)
  set(alone)  # no source includes them first and so shows that they compile by themselves
  foreach(header ${A_HEADERS})
    if(NOT EXISTS ${dir}/${header})
      message(FATAL_ERROR "ros2_module(${path}): header ${header} does not exist")
    endif()
    get_filename_component(folder ${view}/ros2s/${path}/${header} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${dir}/${header} ${view}/ros2s/${path}/${header} SYMBOLIC)
    string(REGEX REPLACE "h$" "cc" source ${header})
    if(EXISTS ${dir}/${source})
      list(APPEND faces ${view}/ros2s/${path}/${header})
    else()
      list(APPEND alone ${view}/ros2s/${path}/${header})
    endif()
  endforeach()

  foreach(lower ${A_PUBLIC} ${A_PRIVATE})
    string(REPLACE "/" "_" target ${lower})
    if(NOT TARGET ros2s::${target})
      message(FATAL_ERROR "ros2_module(${path}): ${lower} is not listed above it, and the lowest layer comes first")
    endif()
  endforeach()
  list(TRANSFORM A_PUBLIC REPLACE "/" "_")
  list(TRANSFORM A_PRIVATE REPLACE "/" "_")
  list(TRANSFORM A_TEST_MODULES REPLACE "/" "_")
  list(TRANSFORM A_PUBLIC PREPEND ros2s::)
  list(TRANSFORM A_PRIVATE PREPEND ros2s::)
  list(TRANSFORM A_TEST_MODULES PREPEND ros2s::)

  if(sources)
    add_library(ros2s_${name} STATIC ${sources})
    target_sources(ros2s_${name} PUBLIC
      FILE_SET HEADERS BASE_DIRS ${view} FILES ${faces}
      FILE_SET alone TYPE HEADERS BASE_DIRS ${view} FILES ${alone})
    target_link_libraries(ros2s_${name} PUBLIC ${A_PUBLIC} PRIVATE ${A_PRIVATE} ${A_LIBS})
    target_compile_options(ros2s_${name} PRIVATE -ffile-prefix-map=${view}/ros2s/${path}=${place})
    if(path MATCHES "/contract$")
      target_compile_options(ros2s_${name} PRIVATE ${ROS2S_TEST_OPTIONS})
    endif()
    if(ROS2S_FUZZ AND fuzzers)
      # A fuzzer looks for inputs that reach new code of its module. Other modules do not report
      # their branches: that would slow their tests by a tenth.
      target_compile_options(ros2s_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
  else()
    add_library(ros2s_${name} INTERFACE)
    target_sources(ros2s_${name} INTERFACE
      FILE_SET alone TYPE HEADERS BASE_DIRS ${view} FILES ${alone})
    target_link_libraries(ros2s_${name} INTERFACE ${A_PUBLIC})
  endif()
  set_target_properties(ros2s_${name} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY alone)
  add_library(ros2s::${name} ALIAS ros2s_${name})

  if(tests AND BUILD_TESTING)
    file(GLOB support CONFIGURE_DEPENDS ${dir}/test_support/*.cc)
    if(EXISTS ${dir}/test_support/README.md)  # a module of its own
      set(support)
    endif()
    add_executable(${name}_test ${tests} ${support})
    target_compile_options(${name}_test PRIVATE -iquote${dir})
    target_link_libraries(${name}_test PRIVATE ros2s::${name} ${A_PRIVATE} ${A_TEST_MODULES}
                          ${A_LIBS} ${A_TEST_LIBS} GTest::gmock GTest::gtest_main)
    set(properties)
    if(A_TESTS_WAIT)
      set(properties PROCESSORS 1)
    endif()
    if("${A_TEST_MODULES}" MATCHES "contract")
      list(APPEND properties COST 50)  # whole suites take minutes under a sanitizer: at the end they would run alone
    endif()
    ros2_tests(${name}_test LABELS ${name} ${properties})
  endif()
  if(ROS2S_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(fuzzer_name ${fuzzer} NAME_WE)
      add_executable(${name}_${fuzzer_name} EXCLUDE_FROM_ALL ${fuzzer})
      add_dependencies(fuzzers ${name}_${fuzzer_name})
      target_compile_options(${name}_${fuzzer_name} PRIVATE -fsanitize=fuzzer -iquote${dir})
      target_link_options(${name}_${fuzzer_name} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${name}_${fuzzer_name} PRIVATE ros2s::${name} ${A_PRIVATE}
                            ${A_TEST_MODULES} ${A_LIBS})
    endforeach()
  endif()
  if(benches AND TARGET benchmark::benchmark AND NOT ROS2S_SANITIZE)
    foreach(bench ${benches})
      get_filename_component(bench_name ${bench} NAME_WE)
      add_executable(${name}_${bench_name} ${bench})
      target_compile_options(${name}_${bench_name} PRIVATE -iquote${dir})
      target_link_libraries(${name}_${bench_name} PRIVATE ros2s::${name} ${A_PRIVATE}
                            ${A_TEST_MODULES} ${A_LIBS} benchmark::benchmark_main)
    endforeach()
  endif()
endfunction()
