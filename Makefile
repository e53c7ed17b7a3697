# hayate: `make help` lists the targets. Plain `make` needs a C compiler and the packages of DEV.
CC     ?= cc
MODE   ?= release
B      := build/$(MODE)
PREFIX ?= /usr/local
# The model compiled into the binary; `make DEMO=` builds without one.
DEMO   ?= tests/models/tiny-man.gguf

DEV   := libxxhash-dev libutf8proc-dev libjansson-dev libvulkan-dev
KERNELS := glslc spirv-tools clang-19 lld-19
CHECK := $(DEV) zstd jq cppcheck shellcheck clang libclang-rt-14-dev mesa-vulkan-drivers vulkan-validationlayers

WARN        := -Wno-psabi -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -Wvla -Wundef
OPT_release := -O2 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LIBS        := -lxxhash -lutf8proc -ljansson -lpthread -ldl -lm
CC_ALL      := $(CC) -std=gnu11 -I. $(WARN) $(OPT_$(MODE)) $(CFLAGS)
# Contraction is off in the references, so that they compute what they say, and on in the twins.
REF         := -ffp-contract=off
FAST        := -O3 -ffp-contract=fast

# Vectorised twins (*_fast.c) are compiled once per instruction set; the program chooses at start.
ISAS := base
ifneq (,$(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)))
ISAS   += avx2 avx512
CC_ALL += -DHAVE_X86_ISAS
endif
ISA_base   := -DISA=base
ISA_avx2   := -DISA=avx2 -mavx2 -mfma -mf16c
ISA_avx512 := -DISA=avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512

SRC_FAST := $(wildcard model/*_fast.c qsa/*_fast.c gdn/*_fast.c gpu/*_fast.c)
SRC      := $(filter-out $(SRC_FAST),$(wildcard model/*.c qsa/*.c gdn/*.c gpu/*.c gpu/vulkan/*.c kernels_bin/*.c))
OBJ      := $(SRC:%.c=$(B)/%.o) $(B)/kernels_bin/embed.o $(foreach i,$(ISAS),$(SRC_FAST:%.c=$(B)/%.$(i).o))
UNIT     := $(patsubst tests/%.c,$(B)/tests/%.ran,$(wildcard tests/unit_*.c tests/prop_*.c))
FUZZERS  := $(patsubst tests/fuzz_%.c,%,$(wildcard tests/fuzz_*.c))
KERNEL_FILES := $(wildcard kernels_bin/MANIFEST.tsv kernels_bin/*/*.spv kernels_bin/*/*.co)
# Test models that are shipped as a difference against another one, or packed
MODELS   := build/models/tiny-zoo.gguf build/models/tiny-lowbit.gguf

all: hayate                  ## build the program (default)
hayate: build/release/hayate
	@ln -sf $< $@

demo: dev-packages           ## install what is missing, build, summarise a sample page with the demo model
	@$(MAKE) --no-print-directory hayate
	@echo '$$ ./hayate tests/data/sample-page.txt'; ./hayate tests/data/sample-page.txt

check: check-packages        ## the whole test suite, without and with sanitizers; installs what it needs when root
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory tests
	@$(MAKE) --no-print-directory MODE=asan tests

# What `check` runs for one MODE; the long text is shorter (tokens) where all is slow
LONG_asan := 4000
tests: $(B)/hayate $(UNIT) $(FUZZERS:%=$(B)/tests/fuzz_%.ran) $(MODELS)
	tests/golden.sh $(B)/hayate
	tests/e2e.sh $(B)/hayate
	tests/long.sh $(B)/hayate $(LONG_$(MODE))
	tests/batch.sh $(B)/hayate $(if $(filter asan,$(MODE)),short)
	tests/prefix.sh $(B)/hayate $(if $(filter asan,$(MODE)),short)
	tests/state.sh $(B)/hayate
	tests/vulkan.sh $(B)/hayate $(if $(filter asan,$(MODE)),short)

asan:                        ## the tests under the address and undefined-behaviour sanitizers
	$(MAKE) MODE=asan tests

lint: $(B)/flags build/kernels/ktool ## include direction, shell scripts, static analysis; kernels against their sources if their compilers are here
	tests/lint.sh
	@kernels_bin/tool/same.sh list > build/kernels/compare
	@test ! -s build/kernels/compare || build/kernels/ktool status > build/kernels/status
	@$(MAKE) --no-print-directory -k -f kernels_bin/tool/kernels.mk same

FUZZ_SECONDS ?= 600
fuzz: $(FUZZERS:%=build/fuzz/fuzz_%) ## libFuzzer on every target, FUZZ_SECONDS (600) each
	set -e; for t in $(FUZZERS); do mkdir -p build/fuzz/corpus_$$t; \
	  build/fuzz/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/ -timeout=20 -rss_limit_mb=4096 build/fuzz/corpus_$$t tests/corpus/$$t; done

kernels: build/kernels/ktool ## recompile the GPU kernels whose source changed; the packages are in KERNELS
	@tests/need.sh $(KERNELS)
	@rm -rf build/kernels/line build/kernels/failed
	@mkdir -p build/kernels/line build/kernels/spirv build/kernels/gfx1151 kernels_bin/spirv kernels_bin/gfx1151
	@build/kernels/ktool status > build/kernels/status
	@$(MAKE) --no-print-directory -f kernels_bin/tool/kernels.mk all
	@kernels_bin/tool/manifest.sh && test ! -f build/kernels/failed

cuda-cubins: build/kernels/rows ## build/cuda/ID.cubin of every kernel, for an NVIDIA GPU of kind sm_90; needs nvcc
	@$(MAKE) --no-print-directory -k -f kernels_bin/tool/cuda.mk all

install: hayate              ## copy the program to DESTDIR/PREFIX/bin
	install -D -m 755 build/release/hayate $(DESTDIR)$(PREFIX)/bin/hayate
uninstall:                   ## remove it from there
	rm -f $(DESTDIR)$(PREFIX)/bin/hayate
clean:                       ## remove everything built
	rm -rf build hayate
help:                        ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
dev-packages:
	@command -v $(CC) >/dev/null || tests/need.sh gcc libc6-dev
	@tests/need.sh $(DEV)
check-packages:
	@command -v $(CC) >/dev/null || tests/need.sh gcc libc6-dev
	@tests/need.sh $(CHECK)

$(B)/hayate: $(B)/main.o $(OBJ)
	$(CC_ALL) $^ -o $@ $(LIBS)
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -MMD -MP -c $< -o $@
define isa_rule
$(B)/%.$(1).o: %.c $(B)/flags
	@mkdir -p $$(@D)
	$$(CC_ALL) $$(FAST) $$(ISA_$(1)) -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))
# .incbin is invisible to -MMD
$(B)/model/demo.o: CC_ALL += $(if $(DEMO),-DDEMO_FILE='"$(DEMO)"')
$(B)/model/demo.o: $(DEMO)
$(B)/model/eval_needle.o: tests/data/sample-page.txt
# Kernels in the binary: the assembler file changes when one comes or goes, its object also when one changes
$(B)/kernels_bin/embed.o: $(B)/kernels_bin/embed.s $(KERNEL_FILES)
	$(CC) -c $< -o $@
$(B)/kernels_bin/embed.s: FORCE
	@mkdir -p $(@D)
	@kernels_bin/tool/embed.sh > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
build/kernels/rows: build/kernels/ktool
	@$< rows > $@
# The kernels once more, for the host: a C++ compiler, because the language looks like C++, but C headers only. Subgroups have 32 items as on a GPU
# under the sanitizers, else 8, the least a kernel must work with.
SG_release := 8
SG_asan    := 32
HOST_FLAGS = clang -x c++ -std=c++17 -fno-exceptions -fno-rtti -I. -Wall -Wextra -Wno-unused-function -Wno-unused-parameter -Wno-unused-variable $(OPT_$(MODE)) -O1 -g1 $(REF) -DLANG_HOST -DHOST_SG_SIZE=$(SG_$(MODE)) \
	$(if $(filter asan,$(MODE)),-fno-sanitize=vptr -fno-sanitize=function)
$(B)/host/host.a: build/kernels/rows FORCE
	@$(MAKE) --no-print-directory -f kernels_bin/tool/host.mk all B='$(B)' SG=$(SG_$(MODE)) HOST_CC='$(CC_ALL)' HOST_FLAGS='$(HOST_FLAGS)'
build/kernels/ktool: $(wildcard kernels_bin/tool/*.[ch] gpu/*.h */*_args.h */*_kernels.def)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -I. $(WARN) -O2 $(filter %.c,$^) -o $@ -lxxhash
# The commit, for --version and the record of a benchmark; rewritten only when it changes
$(B)/main.o $(B)/model/cmd_bench.o: CC_ALL += -include $(B)/version.h
$(B)/main.o $(B)/model/cmd_bench.o: $(B)/version.h
$(B)/version.h: FORCE
	@mkdir -p $(@D)
	@echo "#define HAYATE_COMMIT \"$$(git describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)\"" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(B)/tests/fuzz_%: tests/fuzz_%.c $(OBJ)
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -DFUZZ_REPLAY -MMD -MP $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/tests/fuzz_%.ran: $(B)/tests/fuzz_%
	$< $(wildcard tests/corpus/$*/*) && touch $@
$(B)/tests/%: tests/%.c $(OBJ)
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -MMD -MP $(filter %.c %.o %.a,$^) -o $@ $(LIBS)
$(B)/tests/prop_kernels: $(B)/host/host.a
$(B)/tests/unit_kernels: $(B)/kernels_bin/tool/rows.o $(B)/kernels_bin/tool/inspect.o
$(B)/tests/unit_kernels.ran: $(KERNEL_FILES) $(wildcard */*.k */*.h gpu/lang/*)
$(B)/tests/%.ran: $(B)/tests/% $(MODELS)
	$< && touch $@
build/fuzz/fuzz_%: tests/fuzz_%.c gpu/base.c gpu/quant.c model/gguf.c model/guard.c model/shape.c model/tokenizer.c model/utf8.c $(wildcard model/*.h gpu/*.h)
	@mkdir -p $(@D)
	clang -std=gnu11 -I. -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(filter %.c,$^) -o $@ -lxxhash -lutf8proc -lm

build/models/tiny-zoo.gguf: tests/models/tiny-zoo.gguf.zst tests/models/tiny-man.gguf
build/models/tiny-lowbit.gguf: tests/models/tiny-lowbit.gguf.zst build/models/tiny-zoo.gguf
build/models/%.gguf:
	@mkdir -p $(@D)
	zstd -q -d -f --long=27 $(if $(word 2,$^),--patch-from=$(word 2,$^)) $< -o $@

$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC_ALL) $(DEMO)' | cmp -s - $@ || echo '$(CC_ALL) $(DEMO)' > $@
FORCE:
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all demo check tests asan lint fuzz kernels cuda-cubins install uninstall clean help dev-packages check-packages FORCE
-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/*/*/*.d)
