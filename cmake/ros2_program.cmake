# ros2_program(<name> <dir> [MODULES <modules>] [LIBS <libs>] [TEST_MODULES <modules>])
#
# <dir>/*.cc (apps/cli, apps/fuse, …) becomes the program <name> in build/<preset>/bin. main.cc
# parses, composes and runs. The other sources, also in subfolders, are linked into the program and
# into <name>_test, which consists of the *_test.cc there. Sources include headers of another
# folder as "<folder>/<header>". Programs export no symbols.
function(ros2_program name dir)
  cmake_parse_arguments(A "" "" "MODULES;LIBS;TEST_MODULES" ${ARGN})
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ros2_program(${name}): unknown arguments ${A_UNPARSED_ARGUMENTS}")
  endif()
  set(dir ${PROJECT_SOURCE_DIR}/${dir})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc ${dir}/*/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(parts ${sources})
  list(REMOVE_ITEM parts ${dir}/main.cc)

  list(TRANSFORM A_MODULES REPLACE "/" "_")
  list(TRANSFORM A_MODULES PREPEND ros2s::)
  list(TRANSFORM A_TEST_MODULES REPLACE "/" "_")
  list(TRANSFORM A_TEST_MODULES PREPEND ros2s::)

  set(version ROS2STORE_VERSION="${PROJECT_VERSION}")
  set(objects)
  if(parts)
    add_library(${name}_parts OBJECT ${parts})
    target_link_libraries(${name}_parts PUBLIC ${A_MODULES} ${A_LIBS})
    target_include_directories(${name}_parts PUBLIC ${dir})
    target_compile_definitions(${name}_parts PRIVATE ${version})
    set(objects ${name}_parts)
  endif()
  add_executable(${name} ${dir}/main.cc)
  add_dependencies(programs ${name})
  target_link_libraries(${name} PRIVATE ${objects} ${A_MODULES} ${A_LIBS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/../lib/ros2store")  # libraries that a package brings along
  target_compile_definitions(${name} PRIVATE ${version})
  install(TARGETS ${name} RUNTIME DESTINATION bin)

  if(tests AND BUILD_TESTING)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${objects} ${A_MODULES} ${A_TEST_MODULES} ${A_LIBS}
                          GTest::gmock GTest::gtest_main)
    ros2_tests(${name}_test LABELS ${name})
  endif()
endfunction()
