# lapwing: `make` builds the library, `make demo` runs the built-in model, `make test` passes the tests.
UNAME := $(shell uname -s)
ARCH := $(shell uname -m)
CXX ?= c++
# Not DENO: a make variable of that name would take the place of the one in the environment, which the script reads.
RUN_DENO := scripts/deno
BUILD ?= build
OPTIMISE ?= -O3
SANITIZE ?=
# For the emulator and its kernels alone.
SANITIZE_EMU ?=
WERROR ?= -Werror
Q ?= @

MAKEFLAGS += --no-builtin-rules

# As many compilers at a time as there are processors, unless -j says otherwise.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN)
endif

ifeq ($(UNAME),Darwin)
EXT := dylib
SHARED := -dynamiclib -install_name @rpath/liblapwing.dylib
HERE := @loader_path
else
EXT := so
# Under a sanitizer its run-time library is the program's. The library stays loaded until the process ends, whoever closes
# it: threads and the CUDA driver know addresses in it.
SHARED := -shared -Wl,-z,nodelete $(if $(SANITIZE)$(SANITIZE_EMU),,-Wl,--no-undefined) -Wl,--version-script=native/exports.map -pthread -ldl
HERE := $$ORIGIN
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
# The emulator needs a processor with these (native/emu/play.cc asks).
EMU_FLAGS := -O2 -mavx2 -mfma -mf16c -fno-strict-aliasing -Wno-unused
else
LEVELS := dotprod baseline
FLAGS_dotprod := -march=armv8.2-a+dotprod+fp16
FLAGS_baseline :=
EMU_FLAGS := -O2 -fno-strict-aliasing -Wno-unused
endif

CORE_SOURCES := $(wildcard native/core/*.cc native/null/*.cc native/emu/*.cc) native/cpu/pool.cc native/cpu/play.cc native/cpu/level.cc
KERNEL_SOURCES := native/cpu/level_table.cc $(sort $(wildcard kernels/ops/*/*.cc))
# Baseline first: where two levels emit the same inline function of the standard library, the linker keeps the
# first one, and that must run everywhere.
OBJECTS := $(CORE_SOURCES:%.cc=$(BUILD)/obj/%.o) \
	$(foreach l,baseline $(filter-out baseline,$(LEVELS)),$(KERNEL_SOURCES:%.cc=$(BUILD)/obj/$(l)/%.o))

# Kernels in the Metal Shading Language, translated to C++ for the emulator.
METAL_SOURCES := $(sort $(wildcard kernels/ops/*/*.metal))
METAL_OPS := $(notdir $(METAL_SOURCES:.metal=))
TRANSLATOR := $(wildcard native/msl/*.ts) native/gen/metal_ops.h $(wildcard kernels/shared/metal/*.h)
OBJECTS += $(METAL_OPS:%=$(BUILD)/obj/emu/%.o)

# The Metal player: Objective-C++ without ARC, and the kernels' text, which Metal compiles when a tape needs one.
METAL_OBJECTS := $(patsubst %.mm,$(BUILD)/obj/%.o,$(wildcard native/metal/*.mm)) $(BUILD)/obj/metal/sources.o
ifeq ($(UNAME),Darwin)
OBJECTS += $(METAL_OBJECTS)
SHARED += -framework Metal -framework Foundation
$(BUILD)/obj/native/core/api.o: CXXFLAGS += -DLW_METAL
$(BUILD)/obj/%.o: %.mm
	@mkdir -p $(@D)
	@echo "  OBJC $<"
	$(Q)$(CXX) -x objective-c++ -fno-objc-arc $(CXXFLAGS) -c $< -o $@
endif

# The CUDA player: kernels translated from the .metal sources, and what is better by hand for CUDA. It takes minutes to
# compile, so it is built where there are nvcc and an NVIDIA device, for that device. CUDA=1 builds it wherever nvcc is,
# CUDA=0 nowhere. CUDA_ARCHS names the compute capabilities to compile for, the first that later devices run too also as PTX.
NVCC ?= $(shell command -v nvcc || echo /usr/local/cuda/bin/nvcc)
CUDA_FOUND := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sed 's/^90$$/90a/' | sort -u)
CUDA ?= $(if $(and $(wildcard $(NVCC)),$(CUDA_FOUND)),1,0)
CUDA_ARCHS ?= $(or $(CUDA_FOUND),80 90a)
ifeq ($(CUDA)$(wildcard $(NVCC)),1)
$(error CUDA=1 needs nvcc: there is no $(NVCC))
endif
# Changes with what is built of CUDA.
$(BUILD)/.cuda: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA) $(CUDA_ARCHS)' | cmp -s - $@ || echo '$(CUDA) $(CUDA_ARCHS)' > $@
$(BUILD)/obj/native/core/api.o: $(BUILD)/.cuda
ifeq ($(CUDA),1)
CUDA_HOME := $(shell $(NVCC) --dryrun -x cu /dev/null -c -o /dev/null 2>&1 | sed -n 's/^.. TOP=//p')
CUDA_OVERRIDES := $(sort $(wildcard kernels/ops/*/*.cu))
CUDA_OBJECTS := $(patsubst %.cc,$(BUILD)/obj/%.o,$(wildcard native/cuda/*.cc)) $(METAL_OPS:%=$(BUILD)/obj/cuda/%.o) \
	$(CUDA_OVERRIDES:%.cu=$(BUILD)/obj/%.cu.o) $(BUILD)/obj/native/cuda/control.cu.o $(BUILD)/obj/cuda/linked.o
OBJECTS += $(CUDA_OBJECTS)
$(CUDA_OBJECTS): $(BUILD)/.cuda
LIBS := $(foreach d,lib64 lib targets/$(ARCH)-linux/lib,-L$(CUDA_HOME)/$(d)) -lcudart_static -lcudadevrt -lrt -ldl
CUDA_FLAGS := -std=c++17 -O3 -I. $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	$(foreach a,$(firstword $(filter-out %a,$(CUDA_ARCHS))),-gencode arch=compute_$(a),code=compute_$(a)) -compress-mode=size \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall -MMD -MP
$(BUILD)/obj/native/core/api.o: CXXFLAGS += -DLW_CUDA_PLAYER
$(BUILD)/obj/native/cuda/%.o: CXXFLAGS += -isystem $(CUDA_HOME)/include

$(BUILD)/cuda/.translated: $(BUILD)/emu/.ops $(METAL_SOURCES) $(TRANSLATOR) | node_modules/.ready
	@echo "  MSL  $(@D)"
	$(Q)$(RUN_DENO) run --quiet --allow-read --allow-write --allow-run --allow-env native/msl/main.ts cuda $(@D) $(METAL_OPS)
	@touch $@
$(BUILD)/cuda/%.cu: $(BUILD)/cuda/.translated ;
.SECONDARY: $(METAL_OPS:%=$(BUILD)/cuda/%.cu)

# Sums come out as the kernels write them, on every player: no multiply-add but where a kernel says fma.
$(BUILD)/obj/cuda/%.o: $(BUILD)/cuda/%.cu $(wildcard native/shim/cuda/* native/shim/core/*.h)
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	$(Q)$(NVCC) $(filter-out -MMD -MP,$(CUDA_FLAGS)) -fmad=false -diag-suppress 177,550 -Inative/shim/cuda -c $< -o $@
$(BUILD)/obj/kernels/%.cu.o: kernels/%.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	$(Q)$(NVCC) $(CUDA_FLAGS) -c $< -o $@
# Its matrices are many: unrolled it is 2 MB of code, with more instructions of whole warps than an object lists (64 KB of
# offsets), and to compute-sanitizer a barrier of a warp that is not listed is none.
$(BUILD)/obj/cuda/gdn_chunk.o: CUDA_FLAGS += -DMSL_PRODUCT_UNROLL=2
# Conditions of graphs are set through the device's own run-time library, which is linked apart.
$(BUILD)/obj/native/cuda/control.cu.o: native/cuda/control.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	$(Q)$(NVCC) $(CUDA_FLAGS) -rdc=true -c $< -o $@
$(BUILD)/obj/cuda/linked.o: $(BUILD)/obj/native/cuda/control.cu.o
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(filter-out -MMD -MP,$(CUDA_FLAGS)) -dlink $(filter %.o,$^) -o $@ -lcudadevrt
endif

.PHONY: FORCE all budgets check-msl lib demo gpu-bundle test test-metal san-metal metal-address metal-thread test-no-device test-emu-san ok san san-cuda san-run gen gen-check fmt fmt-check lint check clean help
.DEFAULT_GOAL := all

all: $(LIB) node_modules/.ready ## build the library and fetch the TypeScript dependencies

lib: $(LIB)

$(LIB): $(OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CXX) $(SHARED) $(SANITIZE) $(SANITIZE_EMU) -o $@.part $^ $(LIBS)
	@mv -f $@.part $@  # a new file: a process that has the old one mapped keeps it

$(BUILD)/obj/native/cpu/level.o: CXXFLAGS += '-DLW_LEVELS(X)=$(foreach l,$(LEVELS),X($(l)))'
$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) -c $< -o $@

define level_rule
$(BUILD)/obj/$(1)/%.o: %.cc
	@mkdir -p $$(@D)
	@echo "  CXX  $$< ($(1))"
	$(Q)$(CXX) $(CXXFLAGS) $(FLAGS_$(1)) -DLW_CPU_NAMESPACE=lw_cpu_$(1) -c $$< -o $$@
endef
$(foreach l,$(LEVELS),$(eval $(call level_rule,$(l))))

# Changes with the list of ops, whatever the age of their files.
$(BUILD)/emu/.ops: FORCE
	@mkdir -p $(@D)
	@echo '$(METAL_OPS)' | cmp -s - $@ || echo '$(METAL_OPS)' > $@

# Behind the dependencies: who runs deno first fetches it, and two must not at once.
$(BUILD)/emu/.translated: $(BUILD)/emu/.ops $(METAL_SOURCES) $(TRANSLATOR) | node_modules/.ready
	@echo "  MSL  $(@D)"
	$(Q)$(RUN_DENO) run --quiet --allow-read --allow-write --allow-run --allow-env native/msl/main.ts emu $(@D) $(METAL_OPS)
	@touch $@

$(BUILD)/emu/%.cc: $(BUILD)/emu/.translated ;
.SECONDARY: $(METAL_OPS:%=$(BUILD)/emu/%.cc)

$(BUILD)/obj/emu/%.o $(BUILD)/obj/native/emu/simt.o: CXXFLAGS += $(SANITIZE_EMU)
$(BUILD)/obj/emu/%.o: $(BUILD)/emu/%.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) $(EMU_FLAGS) -Inative/shim/emu -c $< -o $@

$(BUILD)/metal/sources.cc: native/metal/embed.ts native/metal/guard.metal $(BUILD)/emu/.ops $(METAL_SOURCES) $(TRANSLATOR) | node_modules/.ready
	@echo "  MSL  $@"
	$(Q)$(RUN_DENO) run --quiet --allow-read --allow-write native/metal/embed.ts $@ $(METAL_OPS)

$(BUILD)/obj/metal/%.o: $(BUILD)/metal/%.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) -c $< -o $@

node_modules/.ready: deno.json deno.lock
	$(Q)$(RUN_DENO) install --frozen --quiet
	@touch $@

demo: all ## the built-in model continues a sentence
	@$(RUN_DENO) task generate "The old house stood on"

gpu-bundle: node_modules/.ready $(if $(filter 1,$(CUDA)),$(LIB)) ## pack what a GPU machine without network needs into build/lapwing-gpu.tar.xz
	@scripts/gpu_bundle $(BUILD)/lapwing-gpu.tar.xz $(if $(filter 1,$(CUDA)),$(LIB))

# The closing line is one of plain counts, whatever deno prints above it.
test: all ## build, then pass the tests
	@rm -f $(BUILD)/junit.xml
	@$(RUN_DENO) test $(TEST_PERMISSIONS) --parallel --junit-path=$(BUILD)/junit.xml --ignore=tests/metal tests; status=$$?; \
	$(RUN_DENO) run --allow-read tests/tally.ts --junit $(BUILD)/junit.xml $$status

TEST_PERMISSIONS := --allow-read --allow-write --allow-env --allow-ffi --allow-run --allow-sys --allow-net

# By what they import: a test that opens a device names one of these. Those of bench/ take longer than all others.
NEEDS_DEVICE := abi/handle|engine/(api|model|session)\.ts|/(devices|fixture|kernel_kinds|lockstep|mod)\.ts|"-A", main,|examples/
test-no-device: node_modules/.ready ## pass the tests that need no library
	@$(RUN_DENO) test $(filter-out --allow-ffi,$(TEST_PERMISSIONS)) --parallel \
		$$(grep -rLE '$(NEEDS_DEVICE)' tests --include='*_test.ts' | grep -vE '^tests/(bench|metal)/')

# Programs over the C ABI alone: parity cases replayed, tapes mutated.
NATIVE_TESTS := $(BUILD)/op_suite $(BUILD)/fuzz_tape
$(NATIVE_TESTS): $(BUILD)/%: $(BUILD)/obj/tests/native/%.o $(LIB)
	@echo "  LINK $@"
	$(Q)$(CXX) $(SANITIZE) $(SANITIZE_EMU) -pthread $< -o $@ -L$(BUILD) -llapwing '-Wl,-rpath,$(HERE)'

# On an NVIDIA device: the op cases again under compute-sanitizer, and a device that is lost on the way. The cases are
# those that fit into its time; bits must be those of the run without it.
SAN_CUDA_CASES := $(BUILD)/san-cuda-cases.bin
$(BUILD)/cuda_lost: tests/native/cuda_lost.cu $(LIB)
	@echo "  NVCC $<"
	$(Q)$(NVCC) -std=c++17 -I. $< -o $@ -L$(BUILD) -llapwing -Xlinker '-rpath,$(HERE)'
san-cuda: all $(BUILD)/op_suite $(BUILD)/cuda_lost ## run the CUDA player's op cases under compute-sanitizer
	@$(RUN_DENO) run --allow-read --allow-write --allow-ffi tests/native/dump_cases.ts $(SAN_CUDA_CASES) cuda
	compute-sanitizer --tool memcheck --error-exitcode 1 $(BUILD)/op_suite $(SAN_CUDA_CASES) 1
	compute-sanitizer --tool racecheck --error-exitcode 1 $(BUILD)/op_suite $(SAN_CUDA_CASES) 1
	$(BUILD)/cuda_lost

# What every kernel takes of an Apple GPU's threadgroup; one over its limits does not compile.
budgets: $(BUILD)/kernel_budgets ## print threads, threadgroup memory and buffers of every .metal kernel
	@$<

# clang's OpenCL C++ has the address spaces of the Metal Shading Language. The second pass is for what is not C++14.
CHECK_CLANG := clang++-19
CHECK_FLAGS := -x cl -cl-std=clc++2021 -target x86_64 -fsyntax-only -cl-no-stdinc -Wno-everything -Inative/shim/check -I. \
	-Xclang -cl-ext=-all,+cl_khr_fp16,+__opencl_c_generic_address_space
check-msl: $(BUILD)/emu/.translated ## check address spaces and C++14 of every .metal file with clang
	@command -v $(CHECK_CLANG) >/dev/null || { echo "skipped: check-msl needs $(CHECK_CLANG)"; exit 0; }; \
	$(RUN_DENO) run --quiet --allow-read --allow-write --allow-run --allow-env native/msl/main.ts check $(BUILD)/check $(METAL_OPS) || exit 1; \
	bad=0; for op in $(METAL_OPS); do \
		$(CHECK_CLANG) $(CHECK_FLAGS) $(BUILD)/check/$$op.cl || bad=1; \
		$(CXX) -std=c++14 -pedantic-errors $(filter-out -Wno-unused,$(EMU_FLAGS)) -Wno-attributes -fsyntax-only -isystem native/shim/emu -isystem . $(BUILD)/emu/$$op.cc || bad=1; \
	done; exit $$bad

EMU_OBJECTS := $(METAL_OPS:%=$(BUILD)/obj/emu/%.o) $(patsubst %.cc,$(BUILD)/obj/%.o,native/emu/simt.cc native/emu/switch.cc)
$(BUILD)/kernel_budgets: tests/native/kernel_budgets.cc $(EMU_OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CXX) $(CXXFLAGS) $^ -o $@

# Two instruction sets are enough for the sanitizers: the widest, and the portable code.
SAN_LEVELS := $(firstword $(LEVELS)) baseline
SAN_CASES := $(BUILD)/san-cases.bin
SAN_EMU_CASES := $(BUILD)/san-emu-cases.bin
SAN_MUTATIONS ?= 300000
SAN_SEED ?= 1
SAN_BUILD = $(MAKE) --no-print-directory OPTIMISE=-O1 LEVELS="$(SAN_LEVELS)"

san: all ## run the parity cases and a fuzzer of tapes under ASan with UBSan, and the cases under TSan
	@$(RUN_DENO) run --allow-read --allow-write --allow-ffi tests/native/dump_cases.ts $(SAN_CASES) $(SAN_LEVELS)
	@$(RUN_DENO) run --allow-read --allow-write --allow-ffi tests/native/dump_cases.ts $(SAN_EMU_CASES) msl
	+@$(SAN_BUILD) BUILD=build/san-address SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all" \
		build/san-address/op_suite build/san-address/fuzz_tape
	+@$(SAN_BUILD) BUILD=build/san-thread METAL_OPS= SANITIZE="-fsanitize=thread" build/san-thread/op_suite
	build/san-address/op_suite $(SAN_CASES) 1
	build/san-address/op_suite $(SAN_EMU_CASES) 2
	build/san-address/fuzz_tape $(SAN_CASES) $(SAN_MUTATIONS) $(SAN_SEED) 2
	build/san-thread/op_suite $(SAN_CASES) 4

include tests/metal/fake.mk

# Only clang's ThreadSanitizer knows fibers, and only clang has MemorySanitizer. The latter sees the emulator and its
# kernels alone: what others wrote counts as written. The former shares its objects with san-metal, and making fibers is
# most of what it does: cases of more GPU threads are left out where their kernel has one of fewer.
EMU_SAN_CXX := clang++-19
EMU_SAN_CASES := $(BUILD)/emu-san-cases.bin
EMU_SAN_THREADS := 4096
EMU_SAN_BUILD = $(MAKE) --no-print-directory OPTIMISE=-O1 LEVELS=baseline CXX=$(EMU_SAN_CXX) WERROR=
EMU_SAN_OPTIONS = halt_on_error=1:external_symbolizer_path=$(shell command -v llvm-symbolizer-19 || command -v llvm-symbolizer)

test-emu-san: all ## run the emulator's cases under clang's ThreadSanitizer, which sees every GPU thread, and MemorySanitizer
	+@if ! command -v $(EMU_SAN_CXX) >/dev/null; then echo "skipped: test-emu-san needs $(EMU_SAN_CXX)"; exit 0; fi; set -e; \
	$(RUN_DENO) run --allow-read --allow-write --allow-ffi tests/native/dump_cases.ts $(EMU_SAN_CASES) msl $(EMU_SAN_THREADS); \
	$(EMU_SAN_BUILD) BUILD=build/san-emu-memory SANITIZE_EMU=-fsanitize=memory build/san-emu-memory/op_suite; \
	$(EMU_SAN_BUILD) BUILD=build/metal-thread SANITIZE=-fsanitize=thread SIMT_TSAN=1 build/metal-thread/op_suite; \
	set -x; MSAN_OPTIONS=poison_in_malloc=0:$(EMU_SAN_OPTIONS) build/san-emu-memory/op_suite $(EMU_SAN_CASES) 1; \
	TSAN_OPTIONS=$(EMU_SAN_OPTIONS) build/metal-thread/op_suite $(EMU_SAN_CASES) 2

gen: node_modules/.ready ## write native/gen from kernels/ and ffi/abi/layout.ts
	$(RUN_DENO) run --allow-read --allow-write ffi/tape/gen.ts

gen-check: node_modules/.ready ## fail when native/gen is out of date
	@$(RUN_DENO) run --allow-read ffi/tape/gen.ts --check

fmt: ## format TypeScript, JSON and Markdown
	$(RUN_DENO) fmt

fmt-check: ## fail when something is not formatted
	@$(RUN_DENO) fmt --check

lint: node_modules/.ready ## deno lint
	@$(RUN_DENO) lint

check: node_modules/.ready ## type-check everything
	@$(RUN_DENO) check --quiet $(TS_ROOTS)

TS_ROOTS := $(wildcard mod.ts) bench cli engine ffi kernels native/msl native/metal tests

ok: ## formatted, linted, type-checked, generated files fresh, tests that need no library
	@$(RUN_DENO) task ok

clean: ## remove what was built
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(filter-out %.d,$(MAKEFILE_LIST))

-include $(OBJECTS:.o=.d) $(NATIVE_TESTS:$(BUILD)/%=$(BUILD)/obj/tests/native/%.d)
