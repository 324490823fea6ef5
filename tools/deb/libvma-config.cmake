# find_package(libvma) defines the target libvma::libvma: where the header of the extra API is.
# Programs link with nothing, they ask the library that is preloaded.
if(NOT TARGET libvma::libvma)
  # This file is in lib/ARCHITECTURE/cmake/libvma of the prefix.
  get_filename_component(_libvma_prefix "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
  add_library(libvma::libvma INTERFACE IMPORTED)
  set_target_properties(libvma::libvma PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_libvma_prefix}/include")
  unset(_libvma_prefix)
endif()
