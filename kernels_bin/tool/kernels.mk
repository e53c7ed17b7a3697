# kernels.mk - one target per row, so that `make kernels -j` compiles them in parallel; run by the Makefile's `kernels`.
# A row that fails does not keep the others from being built.
ROWS := $(shell cut -f 1 build/kernels/rows)
all: $(ROWS)
$(ROWS):
	@kernels_bin/tool/row.sh $@ || touch build/kernels/failed
.PHONY: all $(ROWS)
