# hayate: `make help` lists the targets. Plain `make` needs a C compiler and the packages of DEV.
CC     ?= cc
MODE   ?= release
B      := build/$(MODE)
PREFIX ?= /usr/local
# The model compiled into the binary; `make DEMO=` builds without one.
DEMO   ?= tests/models/tiny-man.gguf

DEV   := libxxhash-dev libutf8proc-dev libjansson-dev libvulkan-dev
KERNELS := glslc spirv-tools clang-19 lld-19
CHECK := $(DEV) zstd jq python3-jsonschema cppcheck shellcheck clang libclang-rt-14-dev mesa-vulkan-drivers vulkan-validationlayers \
           mandoc zsh bash-completion parallel git xxhash

WARN        := -Wno-psabi -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -Wvla -Wundef
OPT_release := -O2 -g
OPT_asan    := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_twin    := -O2 -s -DCUDA_TWIN
LIBS        := -lxxhash -lutf8proc -ljansson -lpthread -ldl -lm
CC_ALL      := $(CC) -std=gnu11 -I. $(WARN) $(OPT_$(MODE)) $(CFLAGS)
# Contraction is off in the references, so that they compute what they say, and on in the twins.
REF         := -ffp-contract=off
FAST_release := -O3
FAST_twin   := -O3
FAST_asan   := -O1
FAST        := $(FAST_$(MODE)) -ffp-contract=fast

# Vectorised twins (*_fast.c) are compiled once per instruction set; the program chooses at start.
ISAS := base
ifneq (,$(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)))
ISAS   += avx2 avx512
CC_ALL += -DHAVE_X86_ISAS
endif
ISA_base   := -DISA=base
ISA_avx2   := -DISA=avx2 -mavx2 -mfma -mf16c
ISA_avx512 := -DISA=avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c -mprefer-vector-width=512
# Sanitizers: vectors unrolled as these are take gcc minutes with checks in line, and far longer to run with checks by calls. All sets are one source, but for
# the integer rows of avx512; so prop_rows has every check in base and those of memory in avx512, and avx2, which all other tests run, has none.
ifeq ($(MODE),asan)
ISA_avx2   += -fno-sanitize=all
ISA_avx512 += -fno-sanitize=undefined --param asan-instrumentation-with-call-threshold=0
CC_ALL     += -DISA_USUAL=ISA_AVX2
endif

SRC_FAST := $(wildcard model/*_fast.c qsa/*_fast.c gdn/*_fast.c gpu/*_fast.c)
SRC      := $(filter-out $(SRC_FAST),$(wildcard model/*.c qsa/*.c gdn/*.c gpu/*.c gpu/vulkan/*.c gpu/hip/*.c kernels_bin/*.c))
OBJ      := $(SRC:%.c=$(B)/%.o) $(B)/kernels_bin/embed.o $(foreach i,$(ISAS),$(SRC_FAST:%.c=$(B)/%.$(i).o))
UNIT     := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit_*.c tests/prop_*.c))
FAKE_HIP := $(B)/tests/fake/libamdhip64.so.7 $(B)/tests/fake5/libamdhip64.so.5
FUZZERS  := $(patsubst tests/fuzz_%.c,%,$(wildcard tests/fuzz_*.c))
KERNEL_FILES := $(wildcard kernels_bin/MANIFEST.tsv kernels_bin/*/*.spv kernels_bin/*/*.co $(if $(filter twin,$(MODE)),build/cuda/*.cubin))
# Test models that are shipped as a difference against another one, or packed
MODELS   := build/models/tiny-zoo.gguf build/models/tiny-lowbit.gguf

all: hayate                  ## build the program (default)
hayate: build/release/hayate
	@ln -sf $< $@

demo: dev-packages           ## install what is missing, build, summarise a sample page with the demo model
	@$(MAKE) --no-print-directory hayate
	@echo '$$ ./hayate tests/data/sample-page.txt'; ./hayate tests/data/sample-page.txt

check: check-packages        ## the test suite, without and with sanitizers, in 10 to 20 minutes; installs what it needs when root
	@$(MAKE) --no-print-directory $(MODELS) build/kernels/rows
	@$(MAKE) --no-print-directory -Otarget all-tests
check-long: check-packages   ## the same with the counts and sizes that take hours on few cores
	@$(MAKE) --no-print-directory $(MODELS) build/kernels/rows
	@$(MAKE) --no-print-directory -Otarget all-tests SIZE_release=long SIZE_asan=

all-tests: lint tests-release tests-asan
tests-%: FORCE
	@$(MAKE) --no-print-directory MODE=$* tests

# What `check` runs for one MODE, the longest first. SIZE: nothing, short or long, where a test knows more than one size. FIRST: programs that take long.
SIZE_asan := short
SIZE      := $(SIZE_$(MODE))
RAN       := $(if $(SIZE),$(SIZE),usual)
FIRST     := prop_context prop_gfx11 prop_places prop_draft prop_best
SH_TESTS  := vulkan hip batch together shard prefix e2e bench golden state long system
# Pipelines that one test has compiled on a software device serve the next: that is two thirds of the work there
tests: export XDG_CACHE_HOME := $(CURDIR)/build/cache
tests: $(FIRST:%=$(B)/tests/%.$(RAN)) $(UNIT:=.$(RAN)) $(SH_TESTS:%=$(B)/tests/%.sh) $(FUZZERS:%=$(B)/tests/fuzz_%.ran) $(B)/tests/gfx11_sheet.sh
$(SH_TESTS:%=$(B)/tests/%.sh): $(B)/tests/%.sh: tests/%.sh $(B)/hayate $(MODELS) FORCE
	$< $(B)/hayate $(SIZE)
$(B)/tests/hip.sh: $(FAKE_HIP) $(B)/tests/prop_together
$(B)/tests/gfx11_sheet.sh: tests/gfx11_sheet.sh $(B)/tests/gfx11_sheet FORCE
	$< check $(B)/tests/gfx11_sheet

asan:                        ## the tests under the address and undefined-behaviour sanitizers
	$(MAKE) MODE=asan tests

lint: build/kernels/ktool ## include direction, shell scripts, static analysis; kernels against their sources if their compilers are here
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

gfx11-model: $(B)/tests/gfx11_model ## the demo model on the interpreter of gfx1151 code objects, against the cpu
	$<

gfx11-sheet: $(B)/tests/gfx11_sheet ## README's tables of registers and inner loops of the gfx1151 kernels, anew
	tests/gfx11_sheet.sh write $<

cuda-cubins: build/kernels/rows ## build/cuda/ID.cubin of every kernel, for an NVIDIA GPU of kind sm_90; needs nvcc
	@$(MAKE) --no-print-directory -k -f kernels_bin/tool/cuda.mk all

plot: tests/bench/speed.svg   ## the plot of the README from the results in tests/bench/data; needs gnuplot and jq
tests/bench/speed.svg: tests/bench/plot.sh $(wildcard tests/bench/data/*.jsonl)
	@tests/need.sh gnuplot-nox jq
	tests/bench/plot.sh $@ $(filter %.jsonl,$^)

# The HIP backend on CUDA's driver interface, for tests/cuda-twin.sh on an NVIDIA GPU. Runs on any x86-64 with glibc 2.36; without the demo model.
CUBINS_twin := $(CURDIR)/build/cuda
cuda-twin: cuda-cubins       ## build/twin/hayate: a test build with --backend cuda; needs nvcc
	@$(MAKE) --no-print-directory MODE=twin DEMO= LIBS='-l:libxxhash.a -l:libutf8proc.a -l:libjansson.a -lpthread -lm -ldl' build/twin/hayate

# What belongs to an installed program: source and place of each file. Packages of a distribution set ZSHDIR.
SHARE  := $(PREFIX)/share
ZSHDIR ?= $(SHARE)/zsh/site-functions
INSTALLED := build/share/hayate.1:$(SHARE)/man/man1/hayate.1 build/share/hayate.bash:$(SHARE)/bash-completion/completions/hayate \
             build/share/_hayate:$(ZSHDIR)/_hayate README.md:$(SHARE)/doc/hayate/README.md LICENSE:$(SHARE)/doc/hayate/LICENSE

install: hayate build/share/hayate.1 build/share/hayate.bash build/share/_hayate ## program, manual page, completions, documents to DESTDIR/PREFIX
	install -D -m 755 build/release/hayate '$(DESTDIR)$(PREFIX)/bin/hayate'
	$(foreach f,$(INSTALLED),install -D -m 644 $(word 1,$(subst :, ,$(f))) '$(DESTDIR)$(word 2,$(subst :, ,$(f)))' &&) true
uninstall:                   ## remove them from there
	rm -f '$(DESTDIR)$(PREFIX)/bin/hayate'
	rm -f $(foreach f,$(INSTALLED),'$(DESTDIR)$(word 2,$(subst :, ,$(f)))')
	-rmdir '$(DESTDIR)$(SHARE)/doc/hayate'
dist:                        ## build/hayate-VERSION.tar.gz: sources, models and kernels of this commit; builds offline
	.package/dist.sh
deb: hayate                  ## build/hayate_VERSION_ARCH.deb, for Debian and Ubuntu
	@tests/need.sh dpkg-dev
	.package/deb.sh
check-package: check-packages ## tarball and package in a clean Debian; root, network and some minutes
	@tests/need.sh debootstrap lintian dpkg-dev git
	tests/package.sh
check-machines: hayate check-packages ## shards on several machines: GNU parallel over ssh, an array job of Slurm; both are started here
	@tests/need.sh openssh-server openssh-client slurm-wlm munge
	tests/parallel.sh ./hayate
	tests/slurm.sh ./hayate
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
$(B)/model/demo.o: private CC_ALL += $(if $(DEMO),-DDEMO_FILE='"$(DEMO)"')
$(B)/model/demo.o: $(DEMO)
$(B)/model/eval_needle.o: tests/data/sample-page.txt
# Kernels in the binary: the assembler file changes when one comes or goes, its object also when one changes
$(B)/kernels_bin/embed.o: $(B)/kernels_bin/embed.s $(KERNEL_FILES)
	$(CC) -c $< -o $@
$(B)/kernels_bin/embed.s: FORCE
	@mkdir -p $(@D)
	@kernels_bin/tool/embed.sh $(CUBINS_$(MODE)) > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
build/share/hayate.1: build/release/hayate
	@mkdir -p $(@D)
	$< help --man > $@
build/share/hayate.bash: build/release/hayate
	@mkdir -p $(@D)
	$< help --bash > $@
build/share/_hayate: build/release/hayate
	@mkdir -p $(@D)
	$< help --zsh > $@
build/kernels/rows: build/kernels/ktool
	@$< rows > $@
# The kernels once more, for the host: a C++ compiler, because the language looks like C++, but C headers only. Subgroups have 32 items as on a GPU
# under the sanitizers, else 8, the least a kernel must work with.
SG_release := 8
SG_asan    := 32
HOST_FLAGS = clang -x c++ -std=c++17 -nostdinc++ -fno-exceptions -fno-rtti -I. -Wall -Wextra -Wno-unused-function -Wno-unused-parameter -Wno-unused-variable $(OPT_$(MODE)) -O1 -g1 $(REF) -DLANG_HOST -DHOST_SG_SIZE=$(SG_$(MODE)) \
	$(if $(filter asan,$(MODE)),-fno-sanitize=vptr -fno-sanitize=function)
$(B)/host/host.a: build/kernels/rows FORCE
	@$(MAKE) --no-print-directory -f kernels_bin/tool/host.mk all B='$(B)' SG=$(SG_$(MODE)) HOST_CC='$(CC_ALL)' HOST_FLAGS='$(HOST_FLAGS)'
build/kernels/ktool: $(wildcard kernels_bin/tool/*.[ch] gpu/*.h */*_args.h */*_kernels.def)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -I. $(WARN) -O2 $(filter %.c,$^) -o $@ -lxxhash
# Version, commit and flags, for --version and the record of a benchmark; rewritten only when it changes
VERSIONED := $(B)/main.o $(B)/model/bench_record.o $(B)/model/bench_print.o
$(VERSIONED): private CC_ALL += -include $(B)/version.h
$(VERSIONED): $(B)/version.h
$(B)/version.h: FORCE
	@mkdir -p $(@D)
	@known=0; .package/version.sh header > $@.new 2>/dev/null || known=$$?; \
	 echo '#define HAYATE_FLAGS "$(subst ",,$(CC) -std=gnu11 $(OPT_$(MODE)) $(CFLAGS))"' >> $@.new; \
	 if { [ $$known != 0 ] && [ -f $@ ]; } || cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# All but main.c, without the demo model: a test takes from it what it needs
$(B)/engine.a: $(filter-out $(B)/model/demo.o,$(OBJ)) $(B)/model/no_demo.o
	@rm -f $@
	@ar rcsT $@ $^
$(B)/model/no_demo.o: model/demo.c $(B)/flags
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -MMD -MP -c $< -o $@

$(B)/tests/fuzz_%: tests/fuzz_%.c $(B)/engine.a
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -DFUZZ_REPLAY -MMD -MP $(filter %.c,$^) $(B)/engine.a -o $@ $(LIBS)
$(B)/tests/fuzz_%.ran: $(B)/tests/fuzz_%
	$< $(wildcard tests/corpus/$*/*) && touch $@
$(B)/tests/%: tests/%.c $(B)/engine.a
	@mkdir -p $(@D)
	$(CC_ALL) $(REF) -MMD -MP $(filter %.c %.o,$^) $(filter %/host.a,$^) $(B)/engine.a -o $@ $(LIBS)
$(B)/tests/prop_kernels: $(B)/host/host.a
# Counts what the program allocates
$(B)/tests/unit_ledger: LIBS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=mmap
$(B)/tests/prop_together: LIBS += -Wl,--wrap=malloc
# The interpreter of gfx1151 code objects
GFX11_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/gfx11/*.c))
$(B)/tests/prop_gfx11 $(B)/tests/prop_forms $(B)/tests/unit_gfx11 $(B)/tests/gfx11_model $(B)/tests/gfx11_sheet: $(GFX11_OBJ)
$(B)/tests/gfx11_model: LIBS += -Wl,--wrap=gpu_open_vulkan
$(B)/tests/prop_gfx11.$(RAN) $(B)/tests/prop_forms.$(RAN): $(KERNEL_FILES)
$(B)/tests/unit_gfx11.$(RAN): $(KERNEL_FILES) $(wildcard tests/gfx11/faults/*) kernels_bin/tool/gfx1151.flags
# A libamdhip64 with the host builds of the kernels
$(B)/tests/unit_hip.$(RAN): $(FAKE_HIP)
$(B)/tests/fake/libamdhip64.so.7: FAKE :=
$(B)/tests/fake5/libamdhip64.so.5: FAKE := -DROCM_5
$(FAKE_HIP): tests/fake_hip.c tests/fake_hip_api.c tests/fake_hip.h tests/fake_hip_impl.h tests/fake_hip.map kernels_bin/tool/inspect.c gpu/quant.c $(B)/host/host.a
	@mkdir -p $(@D)
	$(CC_ALL) $(FAKE) -fPIC -shared -Wl,--version-script=tests/fake_hip.map $(filter %.c %.o %.a,$^) -o $@ -lm
$(B)/tests/unit_kernels: $(B)/kernels_bin/tool/rows.o $(B)/kernels_bin/tool/inspect.o
$(B)/tests/unit_kernels.$(RAN): $(KERNEL_FILES) $(wildcard */*.k */*.h gpu/lang/*)
$(B)/tests/%.$(RAN): $(B)/tests/% $(MODELS)
	TEST_SIZE=$(SIZE) $< && touch $@
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
.PHONY: all demo check tests asan lint plot fuzz kernels gfx11-model gfx11-sheet cuda-cubins cuda-twin install uninstall dist deb check-package check-machines clean help dev-packages check-packages check-long all-tests FORCE
-include $(wildcard $(B)/*.d $(B)/*/*.d $(B)/*/*/*.d)
