# cuda.mk - build/cuda/ID.cubin for every row, with nvcc: to test kernels on an NVIDIA GPU. Run by the Makefile's `cuda-cubins`.
all:
include kernels_bin/tool/rules.mk
all: $(IDS:%=build/cuda/%.cubin)
$(IDS:%=build/cuda/%.cubin): build/cuda/%.cubin: $$(SOURCE_$$*) $(wildcard gpu/lang/*.h gpu/*.h */*_args.h)
	@mkdir -p $(@D)
	@echo "  cuda $*"
	@nvcc -x cu -std=c++17 -arch=sm_90 -cubin -fmad=false -Xcudafe --diag_suppress=177,--diag_suppress=550 -DLANG_CUDA -I. $(OPTIONS_$*) $< -o $@
