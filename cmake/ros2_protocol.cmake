# ros2_protocol(<path> PROTOS <names> TEST_STUBS <names>)
#
# Generates the messages of src/<group>/<path>/<name>.proto under the build tree, and makes of them the static
# library ros2s_<path, slashes as underscores>_protocol. TEST_STUBS are protos whose services tests call as
# foreign programs do, with gRPC's generated stubs: the library ros2s_<path>_stubs. Generated code is
# compiled once, with fewer warnings. Only this module includes its headers, because each takes seconds to
# parse.
# Protobuf registers each file by its path below src. The name must be unique in a process, and a program that
# loads libros2store may have a session.proto of its own.
find_program(ROS2S_PROTOC protoc REQUIRED)
find_program(ROS2S_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

function(ros2_protocol path)
  cmake_parse_arguments(A "" "" "PROTOS;TEST_STUBS" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  set(dir ${PROJECT_SOURCE_DIR}/src/${ROS2S_GROUP}/${path})
  set(out ${PROJECT_BINARY_DIR}/protocol/${name})
  file(MAKE_DIRECTORY ${out})
  set(messages)
  foreach(proto ${A_PROTOS})
    set(source ${dir}/${proto}.proto)
    set(proto ros2s/${path}/${proto})
    add_custom_command(
      OUTPUT ${out}/${proto}.pb.cc ${out}/${proto}.pb.h
      COMMAND ${ROS2S_PROTOC} --proto_path=ros2s/${path}=${dir} --cpp_out=${out} ${source}
      DEPENDS ${source} VERBATIM)
    list(APPEND messages ${out}/${proto}.pb.cc)
  endforeach()
  set(stubs)
  foreach(proto ${A_TEST_STUBS})
    set(source ${dir}/${proto}.proto)
    set(proto ros2s/${path}/${proto})
    add_custom_command(
      OUTPUT ${out}/${proto}.grpc.pb.cc ${out}/${proto}.grpc.pb.h
      COMMAND ${ROS2S_PROTOC} --proto_path=ros2s/${path}=${dir} --grpc_out=${out}
              --plugin=protoc-gen-grpc=${ROS2S_GRPC_PLUGIN} ${source}
      DEPENDS ${source} VERBATIM)
    list(APPEND stubs ${out}/${proto}.grpc.pb.cc)
  endforeach()
  add_library(ros2s_${name}_protocol STATIC ${messages})
  target_include_directories(ros2s_${name}_protocol SYSTEM PUBLIC ${out})
  target_link_libraries(ros2s_${name}_protocol PUBLIC grpc++ grpc gpr absl_synchronization protobuf)
  add_library(ros2s_${name}_stubs STATIC EXCLUDE_FROM_ALL ${stubs})
  # clang-tidy reads tests also where they are not built.
  add_custom_target(ros2s_${name}_stub_sources DEPENDS ${stubs})
  add_dependencies(ros2s_${name}_protocol ros2s_${name}_stub_sources)
  target_link_libraries(ros2s_${name}_stubs PUBLIC ros2s_${name}_protocol)
  foreach(library ros2s_${name}_protocol ros2s_${name}_stubs)
    target_compile_options(${library} PRIVATE -w)
    # Generated sources all have the same helpers.
    set_target_properties(${library} PROPERTIES UNITY_BUILD OFF)
  endforeach()
endfunction()
