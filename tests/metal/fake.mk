# The Metal player on Linux, over a fake Foundation and Metal whose command buffers run on the emulator: clang compiles
# Objective-C++ against GCC's runtime, everything else is what the library itself is made of.
OBJCXX := clang++-19
LIBOBJC := $(wildcard $(shell gcc -print-file-name=libobjc.so 2>/dev/null))
METAL_LACKS := $(if $(shell command -v $(OBJCXX)),,clang-19) $(if $(LIBOBJC),,libobjc-12-dev)
FAKE := $(BUILD)/obj/fake
FAKE_LIB := $(BUILD)/metal-fake/liblapwing.so
OBJCXXFLAGS := -x objective-c++ -fobjc-runtime=gcc -fconstant-string-class=NSConstantString -fblocks -fno-objc-arc -std=c++17 \
	-O1 -g1 -fPIC -fvisibility=hidden -pthread -Wall -Wextra $(WERROR) -Wno-objc-root-class -I. -I$(BUILD)/fake/include -MMD -MP $(SANITIZE)
FAKE_OBJECTS := $(FAKE)/native/core/api.o $(FAKE)/guard.o $(BUILD)/obj/metal/sources.o \
	$(patsubst %,$(FAKE)/%.o,$(basename $(wildcard native/metal/*.mm tests/metal/fake/*.mm tests/metal/fake/*.cc))) \
	$(filter-out %/core/api.o,$(filter $(BUILD)/obj/native/core/% $(BUILD)/obj/native/null/% $(BUILD)/obj/native/emu/%,$(OBJECTS))) \
	$(BUILD)/obj/native/cpu/pool.o $(METAL_OPS:%=$(BUILD)/obj/emu/%.o)

# The fake's headers under the names of Apple's.
FAKE_HEADERS := $(BUILD)/fake/include/Foundation/Foundation.h $(BUILD)/fake/include/Metal/Metal.h
$(FAKE_HEADERS):
	@mkdir -p $(@D)
	@echo '#include "tests/metal/fake/$(shell echo $(basename $(notdir $@)) | tr FM fm).h"' > $@

$(FAKE)/%.o: %.mm $(FAKE_HEADERS)
	@mkdir -p $(@D)
	@echo "  OBJC $<"
	$(Q)$(OBJCXX) $(OBJCXXFLAGS) -c $< -o $@

$(FAKE)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) -DLW_METAL -c $< -o $@

$(BUILD)/fake/guard.cc: native/metal/guard.metal $(TRANSLATOR)
	@echo "  MSL  $@"
	$(Q)$(RUN_DENO) run --quiet --allow-read --allow-write --allow-run --allow-env native/msl/main.ts emu $(@D) $<

$(FAKE)/guard.o: $(BUILD)/fake/guard.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) $(EMU_FLAGS) -Inative/shim/emu -c $< -o $@

$(FAKE_LIB): $(FAKE_OBJECTS)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(Q)$(CXX) $(SHARED) $(SANITIZE) -o $@.part $^ $(LIBOBJC)
	@mv -f $@.part $@

# The same in programs under clang's sanitizers. The emulator's fibers tell the race detector of themselves.
ifdef SIMT_TSAN
$(BUILD)/obj/native/emu/simt.o: CXXFLAGS := $(filter-out -fsanitize=%,$(CXXFLAGS)) -DSIMT_TSAN
endif
METAL_TESTS := $(BUILD)/metal_suite $(BUILD)/metal_model
$(METAL_TESTS): $(BUILD)/metal_%: tests/metal/%.cc tests/native/case_file.h $(FAKE_OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CXX) $(CXXFLAGS) $< $(FAKE_OBJECTS) $(LIBOBJC) -ldl -o $@

# Parity cases and whole tapes; the built-in model.
METAL_CASES := build/metal-cases.bin
METAL_MODEL := build/metal-model.bin
METAL_DUMPS := $(METAL_CASES) $(METAL_MODEL)
$(METAL_CASES): tests/metal/dump_tapes.ts tests/metal/tapes.ts
$(METAL_MODEL): tests/metal/dump_model.ts tests/metal/golden_tokens.ts $(wildcard kernels/models/*.ts ffi/tape/*.ts engine/*.ts)
$(METAL_DUMPS): build/metal-fake/liblapwing.so tests/native/output.ts node_modules/.ready
	@$(RUN_DENO) run --quiet --allow-read --allow-write --allow-ffi --allow-sys $(filter tests/metal/dump_%,$^) $@
METAL_SAN = $(MAKE) --no-print-directory CXX=$(OBJCXX) OPTIMISE=-O1
# Tokens of the built-in model. The race detector takes a minute for its prompt.
ADDRESS_TOKENS := 17
THREAD_TOKENS := 4
# Of a token's, the barriers that are left out, one at a time: any will do.
PLANTED_BARRIERS := 1 20 40
# A fake stack for each fiber costs more than all kernels.
ADDRESS_OPTIONS := ASAN_OPTIONS=detect_stack_use_after_return=0

ifeq ($(strip $(METAL_LACKS)),)
san-metal: metal-address metal-thread ## the Metal player over the fake under clang's ASan with UBSan, and TSan
metal-address: $(METAL_DUMPS)
	+@$(METAL_SAN) BUILD=build/metal-address SANITIZE="-fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all" \
		build/metal-address/metal_suite build/metal-address/metal_model
	$(ADDRESS_OPTIONS) build/metal-address/metal_suite $(METAL_CASES)
	$(ADDRESS_OPTIONS) build/metal-address/metal_model $(METAL_MODEL) $(ADDRESS_TOKENS)
metal-thread: $(METAL_DUMPS)
	+@$(METAL_SAN) BUILD=build/metal-thread SANITIZE=-fsanitize=thread SIMT_TSAN=1 \
		build/metal-thread/metal_suite build/metal-thread/metal_model
	build/metal-thread/metal_suite $(METAL_CASES)
	build/metal-thread/metal_model $(METAL_MODEL) $(THREAD_TOKENS)
	@for program in "metal_suite $(METAL_CASES) 1" $(PLANTED_BARRIERS:%="metal_model $(METAL_MODEL) drop %"); do \
		if TSAN_OPTIONS=halt_on_error=1 build/metal-thread/$$program > build/metal-thread/planted 2>&1; then \
			echo "a barrier left out was not seen"; exit 1; \
		else grep -m1 "data race" build/metal-thread/planted > /dev/null && echo "1 passed, 0 failed" || exit 1; fi; \
	done

test-metal: $(FAKE_LIB) node_modules/.ready ## the Metal player over a fake Metal (Linux)
	@$(RUN_DENO) test $(TEST_PERMISSIONS) --junit-path=$(BUILD)/metal.xml tests/metal
else
san-metal:
	@echo "skipped: the Metal player's sanitizers need $(strip $(METAL_LACKS)) (apt-get install)"
test-metal: node_modules/.ready
	@echo "skipped: the Metal player's tests need $(strip $(METAL_LACKS)) (apt-get install)"
	@$(RUN_DENO) test $(TEST_PERMISSIONS) --junit-path=$(BUILD)/metal.xml tests/metal
endif

-include $(FAKE_OBJECTS:.o=.d)
