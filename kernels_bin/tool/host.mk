# host.mk - B/host/host.a: the kernels of all rows compiled for the host (gpu/lang/host.h), and a table of them. Run by the Makefile with B, HOST_CC for C,
# HOST_FLAGS for kernels and SG, the size of a subgroup; rows with matrices are written for 32. Position-independent: a shared object may hold it.
H := $(B)/host
all: $(H)/host.a
include kernels_bin/tool/rules.mk
ifneq ($(SG),32)
IDS := $(filter-out $(MATRICES),$(IDS))
endif
$(H)/host.a: $(IDS:%=$(H)/%.o) $(H)/table.o $(H)/host_run.o
	@rm -f $@
	@ar rcs $@ $^
$(H)/host_run.o: gpu/lang/host_run.c $(H)/flags
	@$(HOST_CC) -fPIC -MMD -MP -c $< -o $@
$(H)/table.o: $(H)/table.c
	@$(HOST_CC) -fPIC -c $< -o $@
$(H)/table.c: $(H)/ids kernels_bin/tool/host.mk
	@{ echo '#include "gpu/lang/host_run.h"'; printf 'extern void %s_host(const void *, uint32_t);\n' $(IDS); \
	   echo 'const struct host_row host_rows[] = {'; for id in $(IDS); do echo "{ \"$$id\", $${id}_host },"; done; echo '};'; \
	   echo 'const uint32_t n_host_rows = sizeof host_rows / sizeof *host_rows;'; } > $@
$(IDS:%=$(H)/%.o): $(H)/%.o: $$(SOURCE_$$*) $(H)/flags
	@echo "  host $*"
	@$(HOST_FLAGS) $(OPTIONS_$*) -MMD -MP -c $< -o $@
# Rewritten only when they change
$(H)/flags: TEXT = $(HOST_FLAGS)
$(H)/ids: TEXT = $(IDS)
$(H)/flags $(H)/ids: FORCE
	@mkdir -p $(@D)
	@echo '$(TEXT)' | cmp -s - $@ || echo '$(TEXT)' > $@
-include $(wildcard $(H)/*.d)
