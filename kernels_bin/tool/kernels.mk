# kernels.mk - one target per binary with something to do, so that they are made in parallel with -j; run by the Makefile.
# all: what is stale (a row that fails does not keep the others from being built). same: what has not been compared with its source yet.
ifeq ($(MAKECMDGOALS),same)
same: $(addprefix same/,$(shell cat build/kernels/compare))
same/%:
	@kernels_bin/tool/same.sh $*
else
ROWS := $(shell awk -F '\t' '$$8 !~ /^(ok|none)$$/ || $$10 !~ /^(ok|none)$$/ { print $$1 }' build/kernels/status)
all: $(ROWS)
$(ROWS):
	@kernels_bin/tool/row.sh $@ || touch build/kernels/failed
endif
.PHONY: all same $(ROWS)
