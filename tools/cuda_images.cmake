# The kernels of src/dev/cuda/kernels, compiled by nvcc and put into the library as bytes. Included by CMakeLists.txt.
#
# nvcc is looked for in PATH, CUDA_HOME and the folder that tools/setup-cuda.sh fills. Without it the build goes on with
# images_none.c, and `quipu devices` says that there are no kernels.
set(QUIPU_CUDA AUTO CACHE STRING "kernels for NVIDIA GPUs: AUTO (where nvcc is found), ON (it must be) or OFF")
set(QUIPU_CUDA_ARCHITECTURES "80;86;89;90a;100;120" CACHE STRING
    "GPU architectures to compile for; fewer compile faster. The last one is added as PTX for what comes later")
option(QUIPU_CUDA_RACECHECK "kernels whose barriers compute-sanitizer's racecheck can follow; slower" OFF)
set(QUIPU_CUDA_FOLDER "$ENV{HOME}/.cache/quipu/cuda" CACHE PATH "where tools/setup-cuda.sh has put the compiler")

set(images_source src/dev/cuda/images_none.c)
# builds with sanitizers or for fuzzing look at C
if(QUIPU_CUDA STREQUAL ON OR (QUIPU_CUDA STREQUAL AUTO AND NOT QUIPU_FUZZ AND NOT QUIPU_SANITIZE))
  find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin ${QUIPU_CUDA_FOLDER}/nvidia/cu13/bin /usr/local/cuda/bin
               DOC "the CUDA compiler")
  if(NVCC)
    file(GLOB kernels CONFIGURE_DEPENDS src/dev/cuda/kernels/*.cu)
    set(targets)
    foreach(architecture ${QUIPU_CUDA_ARCHITECTURES})
      list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    list(GET QUIPU_CUDA_ARCHITECTURES -1 newest)
    string(REGEX REPLACE "[a-z]" "" newest_plain ${newest})
    list(APPEND targets -gencode arch=compute_${newest_plain},code=compute_${newest_plain})
    if(QUIPU_CUDA_RACECHECK)
      list(APPEND targets -DKERNELS_RACECHECK)
    endif()
    set(images)
    set(table "")
    foreach(kernel ${kernels})
      get_filename_component(name ${kernel} NAME_WE)
      set(image ${CMAKE_BINARY_DIR}/cuda/${name}.fatbin)
      add_custom_command(OUTPUT ${image} ${image}.log VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
        COMMAND sh ${PROJECT_SOURCE_DIR}/tools/nvcc.sh ${image} ${NVCC} -std=c++17 -O3 ${targets} -Xptxas -v -fatbin
                -MD -MF ${image}.d -MT cuda/${name}.fatbin ${kernel}
        DEPENDS ${kernel} tools/nvcc.sh
        DEPFILE ${image}.d
        COMMENT "nvcc ${name}.cu")
      list(APPEND images ${image})
      string(APPEND table "IMAGE(${name}, \"${image}\")\n")
    endforeach()
    add_custom_target(cuda_kernels DEPENDS ${images})
    list(JOIN QUIPU_CUDA_ARCHITECTURES " " architectures)
    string(REGEX REPLACE "IMAGE\\(([a-z0-9_]+),[^\n]*\n" "    {\"\\1\", image_\\1},\n" entries "${table}")
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/images.c @ONLY CONTENT
"/* Made by tools/cuda_images.cmake. */
#include \"dev/cuda/images.h\"
#include <stddef.h>
#define IMAGE(name, file) \\
    extern const unsigned char image_##name[] __attribute__((visibility(\"hidden\"))); \\
    __asm__(\".pushsection .rodata\\n.balign 64\\n.hidden image_\" #name \"\\n.globl image_\" #name \"\\n\" \
            \"image_\" #name \":\\n.incbin \\\"\" file \"\\\"\\n.byte 0\\n.popsection\\n\");
@table@
const cuda_image cuda_images[] = {
@entries@    {NULL, NULL}};
const char cuda_architectures[] = \"@architectures@\";
")
    set(images_source ${CMAKE_BINARY_DIR}/cuda/images.c)
    set_source_files_properties(${images_source} PROPERTIES OBJECT_DEPENDS "${images}"
                                COMPILE_OPTIONS "-Wno-overlength-strings")
    message(STATUS "kernels for GPUs: ${architectures}, by ${NVCC}")
  elseif(QUIPU_CUDA STREQUAL ON)
    message(FATAL_ERROR "QUIPU_CUDA is ON, but there is no nvcc; 'tools/setup-cuda.sh' installs one")
  else()
    message(STATUS "kernels for GPUs are left out, there is no nvcc ('tools/setup-cuda.sh' installs one)")
  endif()
endif()
if(TARGET quipu_dev)
  target_sources(quipu_dev PRIVATE ${images_source})
  target_link_libraries(quipu_dev PUBLIC ${CMAKE_DL_LIBS})
endif()

# The same kernels as plain C++ in a libcuda of its own (tests/cuda/emulate.cpp), so that tests run them where there is
# no GPU: the general ones, and those of packed weights and decoding for a "GPU" that is new enough. Products of a
# Hopper's warpgroups (wgmma.cuh) are left out; the device does without them.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER AND CMOCKA_FOUND AND NOT QUIPU_FUZZ)
  enable_language(CXX)
  set(emulated rows matmul_exact matmul_tiled rope attend experts digest)
  set(emulated_fast matvec experts_few experts_many turn attend_decode attend_coded attend_batch program program_coded)
  foreach(list emulated emulated_fast)
    list(TRANSFORM ${list} REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/dev/cuda/kernels/\\1.cu")
  endforeach()
  set(as_emulated "-xc++;-include;${PROJECT_SOURCE_DIR}/tests/cuda/emulate.h")
  set_source_files_properties(${emulated} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${as_emulated}")
  set_source_files_properties(${emulated_fast} PROPERTIES LANGUAGE CXX
                              COMPILE_OPTIONS "${as_emulated};-DEMULATE_FAST")
  # where a test's time goes
  set_source_files_properties(tests/cuda/emulate_run.cpp tests/cuda/emulate_ptx.cpp PROPERTIES COMPILE_OPTIONS -O3)
  add_library(cuda_emulated MODULE tests/cuda/emulate.cpp tests/cuda/emulate_run.cpp tests/cuda/emulate_ptx.cpp
              ${emulated} ${emulated_fast})
  target_compile_options(cuda_emulated PRIVATE
    -O1 -std=c++17 -Wno-unknown-pragmas -Wno-unused-function -Wno-missing-field-initializers -Wno-pass-failed
    -Wno-unused-command-line-argument -fno-sanitize=undefined,thread
    $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>) # else it could not be closed, and would pass for the machine's GPU
  target_include_directories(cuda_emulated PRIVATE include src tests/cuda)
  # once it is loaded, whoever looks for the driver finds it
  target_link_options(cuda_emulated PRIVATE -Wl,-soname,libcuda.so.1)
  target_link_libraries(cuda_emulated PRIVATE quipu_quant ${CMAKE_DL_LIBS})
  set_target_properties(cuda_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests PREFIX "")
endif()
