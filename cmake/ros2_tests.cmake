# ros2_tests(<program> <properties of its tests>)
#
# Registers the cases of a GoogleTest program as tests. Under a sanitizer a program takes long to start, so
# a share of its cases is one test, in one process. Programs with the most sources start first, so that no
# long one remains at the end. ./dev test gives ctest two slots for each core. A test takes both, or
# one if it mostly waits, for daemons, clocks or disks: PROCESSORS 1.
function(ros2_tests program)
  if(NOT ROS2S_SANITIZE)
    gtest_discover_tests(${program} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 PROCESSORS 2 ${ARGN})
    return()
  endif()
  target_compile_options(${program} PRIVATE ${ROS2S_TEST_OPTIONS})
  get_target_property(sources ${program} SOURCES)
  list(LENGTH sources count)
  math(EXPR shares "1 + ${count} / 4")
  foreach(share RANGE 1 ${shares})
    math(EXPR index "${share} - 1")
    add_test(NAME ${program}.${share} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${program}.${share} PROPERTIES TIMEOUT 1200 COST ${count} PROCESSORS 2
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shares};GTEST_SHARD_INDEX=${index}" ${ARGN})
  endforeach()
endfunction()
