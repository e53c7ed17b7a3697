# hayate: `make help` lists the targets.
CC   ?= cc
MODE ?= release
B    := build/$(MODE)
DEMO ?= tests/models/tiny-man.gguf

WARN         := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -Wvla -Wundef
OPT_release  := -O2 -g
OPT_asan     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LIBS         := -lxxhash -lutf8proc -ljansson -lpthread -lm
CC_ALL       := $(CC) -std=gnu11 -I. $(WARN) $(OPT_$(MODE)) -ffp-contract=off $(CFLAGS)

SRC   := $(wildcard model/*.c qsa/*.c gdn/*.c gpu/*.c)
OBJ   := $(SRC:%.c=$(B)/%.o)
UNIT  := $(patsubst tests/%.c,$(B)/tests/%.ran,$(wildcard tests/unit_*.c tests/prop_*.c))

all: $(B)/hayate             ## build the program (default)
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC_ALL) -MMD -MP -c $< -o $@
$(B)/hayate: $(B)/main.o $(OBJ)
	$(CC_ALL) $^ -o $@ $(LIBS)
$(B)/tests/%: tests/%.c $(OBJ)
	@mkdir -p $(@D)
	$(CC_ALL) -MMD -MP $(filter %.c %.o,$^) -o $@ $(LIBS)
$(B)/tests/%.ran: $(B)/tests/%
	$< && touch $@
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC_ALL)' | cmp -s - $@ || echo '$(CC_ALL)' > $@
FORCE:
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all FORCE
-include $(wildcard $(B)/*.d $(B)/*/*.d)
