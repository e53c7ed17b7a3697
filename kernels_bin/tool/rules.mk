# rules.mk - the rows as make knows them: IDS, those with MATRICES, and for each SOURCE_id and OPTIONS_id; for host.mk and cuda.mk. Left out are
# rows for one target only, and sources that are not written yet.
include build/kernels/rows.mk
build/kernels/rows.mk: build/kernels/rows kernels_bin/tool/rules.mk
	@awk -F '\t' '$$3 !~ /-DONLY_/ { if ($$7 % 2) print "MATRICES += " $$1; printf "ROWS += %s\nSOURCE_%s := %s\nOPTIONS_%s := -DWORKGROUP=%s -DGRAIN=%s -DKERNEL_ID=%s %s\n", \
	    $$1, $$1, $$2, $$1, $$4, $$5, $$1, ($$3 == "-" ? "" : $$3) }' $< > $@
IDS := $(foreach id,$(ROWS),$(if $(wildcard $(SOURCE_$(id))),$(id)))
MAKEFLAGS += -r
FORCE:
.SECONDEXPANSION:
.DELETE_ON_ERROR:
.PHONY: FORCE all
