# host.mk - HOST_A, the kernels of all rows compiled for the host (gpu/lang/host.h), and a table of them; run by the Makefile with B and HOST_FLAGS.
# build/kernels/rows has the rows; rows with cooperative matrices and sources that are not written yet are left out.
H := $(B)/host
include $(H)/rules.mk
$(H)/rules.mk: build/kernels/rows kernels_bin/tool/host.mk
	@mkdir -p $(@D)
	@awk -F '\t' 'system("test -f " $$2) == 0 && $$7 % 2 == 0 { \
	    printf "IDS += %s\n$(H)/%s.o: %s\n$(H)/%s.o: OPTIONS := -DWORKGROUP=%s -DGRAIN=%s -DKERNEL_ID=%s %s\n", $$1, $$1, $$2, $$1, $$4, $$5, $$1, ($$3 == "-" ? "" : $$3) \
	    }' $< > $@

all: $(H)/host.a
$(H)/host.a: $(IDS:%=$(H)/%.o) $(H)/table.o $(H)/host_run.o
	@rm -f $@
	@ar rcs $@ $^
$(IDS:%=$(H)/%.o): $(H)/flags
	@echo "  host $(@F)"
	@$(HOST_FLAGS) $(OPTIONS) -MMD -MP -c $(filter %.k,$^) -o $@
$(H)/table.c: $(H)/rules.mk
	@{ echo '#include "gpu/lang/host_run.h"'; printf 'extern void %s_host(const void *, uint32_t);\n' $(IDS); \
	   echo 'const struct host_row host_rows[] = {'; for id in $(IDS); do echo "{ \"$$id\", $${id}_host },"; done; echo '};'; \
	   echo 'const uint32_t n_host_rows = sizeof host_rows / sizeof *host_rows;'; } > $@
$(H)/table.o: $(H)/table.c
	@$(HOST_CC) -c $< -o $@
$(H)/host_run.o: gpu/lang/host_run.c $(H)/flags
	@$(HOST_CC) -MMD -MP -c $< -o $@
$(H)/flags: FORCE
	@echo '$(HOST_FLAGS)' | cmp -s - $@ || echo '$(HOST_FLAGS)' > $@
FORCE:
.DELETE_ON_ERROR:
.PHONY: all FORCE
-include $(wildcard $(H)/*.d)
