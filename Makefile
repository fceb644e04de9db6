# lapwing: `make` builds the library, `make demo` runs the built-in model, `make test` passes the tests.
UNAME := $(shell uname -s)
ARCH := $(shell uname -m)
CXX ?= c++
DENO := scripts/deno
BUILD ?= build
OPTIMISE ?= -O3
SANITIZE ?=
WERROR ?= -Werror

ifeq ($(UNAME),Darwin)
EXT := dylib
SHARED := -dynamiclib
else
EXT := so
SHARED := -shared -Wl,--no-undefined -pthread
endif
LIB := $(BUILD)/liblapwing.$(EXT)

CXXFLAGS := -std=c++17 $(OPTIMISE) -g1 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -pthread \
	-Wall -Wextra $(WERROR) -I. -MMD -MP $(SANITIZE)

# Instruction sets of the CPU kernels, best first; one is picked at run time (native/cpu/level.cc).
ifneq ($(filter x86_64 amd64,$(ARCH)),)
LEVELS := avx512 avx2 baseline
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mprefer-vector-width=512
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_baseline :=
else
LEVELS := dotprod baseline
FLAGS_dotprod := -march=armv8.2-a+dotprod+fp16
FLAGS_baseline :=
endif

CORE_SOURCES := $(wildcard native/core/*.cc native/null/*.cc) native/cpu/pool.cc native/cpu/play.cc native/cpu/level.cc
KERNEL_SOURCES := native/cpu/level_table.cc $(sort $(wildcard kernels/ops/*/*.cc))
# Baseline first: where two levels emit the same inline function of the standard library, the linker keeps the
# first one, and that must run everywhere.
OBJECTS := $(CORE_SOURCES:%.cc=$(BUILD)/obj/%.o) \
	$(foreach l,baseline $(filter-out baseline,$(LEVELS)),$(KERNEL_SOURCES:%.cc=$(BUILD)/obj/$(l)/%.o))

.PHONY: all demo test gen gen-check san fmt clean help lib
.DEFAULT_GOAL := all

all: $(LIB) node_modules/.ready ## build the library and fetch the TypeScript dependencies

lib: $(LIB)

$(LIB): $(OBJECTS)
	$(CXX) $(SHARED) $(SANITIZE) -o $@ $^

$(BUILD)/obj/native/cpu/level.o: CXXFLAGS += '-DLW_LEVELS(X)=$(foreach l,$(LEVELS),X($(l)))'
$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c $< -o $@

define level_rule
$(BUILD)/obj/$(1)/%.o: %.cc
	@mkdir -p $$(@D)
	$(CXX) $(CXXFLAGS) $(FLAGS_$(1)) -DLW_CPU_NAMESPACE=lw_cpu_$(1) -c $$< -o $$@
endef
$(foreach l,$(LEVELS),$(eval $(call level_rule,$(l))))

node_modules/.ready: deno.json deno.lock
	$(DENO) install --frozen --quiet
	@touch $@

gen: node_modules/.ready ## write native/gen from kernels/ and ffi/abi/layout.ts
	$(DENO) run --allow-read --allow-write ffi/tape/gen.ts

gen-check: node_modules/.ready ## fail when native/gen is out of date
	$(DENO) run --allow-read ffi/tape/gen.ts --check

clean: ## remove what was built
	rm -rf build

-include $(OBJECTS:.o=.d)
