# ros2_protocol(<path> PROTOS <names> SERVICES <names>)
#
# Generates sources from src/ros2s/<path>/<name>.proto under the build tree, and makes of them the static
# library ros2s_<path, slashes as underscores>_protocol. SERVICES are the protos that have services.
# Generated code is compiled once, with fewer warnings. Only this module includes its headers, because
# each takes seconds to parse.
find_program(ROS2S_PROTOC protoc REQUIRED)
find_program(ROS2S_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

function(ros2_protocol path)
  cmake_parse_arguments(A "" "" "PROTOS;SERVICES" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  set(dir ${PROJECT_SOURCE_DIR}/src/ros2s/${path})
  set(out ${PROJECT_BINARY_DIR}/protocol/${name})
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto ${A_PROTOS})
    add_custom_command(
      OUTPUT ${out}/${proto}.pb.cc ${out}/${proto}.pb.h
      COMMAND ${ROS2S_PROTOC} --proto_path=${dir} --cpp_out=${out} ${dir}/${proto}.proto
      DEPENDS ${dir}/${proto}.proto VERBATIM)
    list(APPEND sources ${out}/${proto}.pb.cc)
  endforeach()
  foreach(proto ${A_SERVICES})
    add_custom_command(
      OUTPUT ${out}/${proto}.grpc.pb.cc ${out}/${proto}.grpc.pb.h
      COMMAND ${ROS2S_PROTOC} --proto_path=${dir} --grpc_out=${out}
              --plugin=protoc-gen-grpc=${ROS2S_GRPC_PLUGIN} ${dir}/${proto}.proto
      DEPENDS ${dir}/${proto}.proto VERBATIM)
    list(APPEND sources ${out}/${proto}.grpc.pb.cc)
  endforeach()
  add_library(ros2s_${name}_protocol STATIC ${sources})
  target_include_directories(ros2s_${name}_protocol SYSTEM PUBLIC ${out})
  target_compile_options(ros2s_${name}_protocol PRIVATE -w)
  # Generated sources all have the same helpers.
  set_target_properties(ros2s_${name}_protocol PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(ros2s_${name}_protocol PUBLIC grpc++ grpc gpr absl_synchronization protobuf)
endfunction()
