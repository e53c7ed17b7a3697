# kernels.mk - one target per row with something to do, so that `make kernels -j` compiles them in parallel; run by the Makefile's `kernels`.
# A row that fails does not keep the others from being built.
ROWS := $(shell awk -F '\t' '$$8 !~ /^(ok|none)$$/ || $$10 !~ /^(ok|none)$$/ { print $$1 }' build/kernels/status)
all: $(ROWS)
$(ROWS):
	@kernels_bin/tool/row.sh $@ || touch build/kernels/failed
.PHONY: all $(ROWS)
